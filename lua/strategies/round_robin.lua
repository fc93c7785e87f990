-- Strict turns, one order for the whole fleet: the least recently chosen is next. A worker keeps its
-- turn over restarts.

strategies.round_robin = {
  prefix_bytes = 0,
  enter = nothing,
  taken = nothing,

  rank = function(worker)
    return worker.seq, ''
  end,

  choose = first_of_index,
}

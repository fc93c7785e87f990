-- Strict turns, one order for the whole fleet: the least recently chosen is next. A worker keeps its
-- turn over restarts.

strategies.round_robin = function()
  return strategy({
    prefix = no_prefix,
    prefix_bytes = 0,

    rank = function(_, worker)
      return worker.seq
    end,
  })
end

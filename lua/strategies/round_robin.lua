-- Strict turns, one order for the whole fleet: the least recently chosen is next. A worker keeps its
-- turn over restarts.

return Rank.strategy({
  prefix = Rank.no_prefix,
  prefix_bytes = 0,

  rank = function(_, worker)
    return worker.seq
  end,

  describe = function(_, worker)
    return { last_choice = worker.seq }
  end,
})

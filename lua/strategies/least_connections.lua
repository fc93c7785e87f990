-- The fewest leases for its weight.

return Rank.strategy({
  rank = function(_, worker)
    return worker.active / worker.weight
  end,

  describe = function(_, worker)
    return { active = worker.active, weight = worker.weight }
  end,
})

-- Chance by weight. Equal weights are equal chances.

return Rank.strategy({
  prefix = Rank.no_prefix,
  prefix_bytes = 0,
  draws = true,
  enter = Dice.wind,
  taken = Dice.ring,

  rank = function(_, worker)
    return worker.clock
  end,

  describe = function(_, worker)
    return { clock = worker.clock, weight = worker.weight }
  end,
})

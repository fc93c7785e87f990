-- Chance by weight. Equal weights are equal chances.

strategies.random = function()
  return strategy({
    prefix = no_prefix,
    prefix_bytes = 0,
    enter = enter_by_clock,
    taken = taken_by_clock,

    rank = function(_, worker)
      return worker.clock
    end,
  })
end

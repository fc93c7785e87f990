-- Chance by weight. The source's default: equal weights are equal chances.

strategies.random = {
  prefix_bytes = 0,
  enter = enter_by_clock,
  taken = taken_by_clock,

  rank = function(worker)
    return worker.clock, ''
  end,

  choose = first_of_index,
}

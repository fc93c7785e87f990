-- The fewest leases for its weight; ties go to the least recently chosen.

strategies.least_connections = {
  prefix_bytes = 8,
  enter = nothing,
  taken = nothing,

  rank = function(worker)
    return worker.active / worker.weight, be(worker.seq)
  end,

  choose = first_of_index,
}

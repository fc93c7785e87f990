-- The fewest leases for its weight.

strategies.least_connections = function()
  return strategy({
    rank = function(_, worker)
      return worker.active / worker.weight
    end,
  })
end

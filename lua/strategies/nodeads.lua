-- Chance by karma among the workers that are not dead: dead are those with more failures in a row
-- than is tolerated. When all are dead, the least bad ones.

return Conduct.strategy({
  level = function(pool, conduct)
    return conduct.row > pool.policy.nodeads.dead_after and conduct.row or 0, 0
  end,

  prefix = function(worker)
    return Rank.be(worker.clock)
  end,
  prefix_bytes = 8,
  usual_prefix = '\0\0\0\0\0\0\0\0',

  describe = function(_, worker)
    local conduct = Conduct.of(worker)
    return { karma = conduct.karma, weight = worker.weight, failures_in_a_row = conduct.row,
      clock = worker.clock }
  end,
})

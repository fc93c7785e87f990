-- Pushes one worker to its lifetime limit while the others stay behind, so that restarts are
-- staggered. The score holds lifetime and active: highest lifetime first, then lowest active.

local LIFETIME_STEP = 2 ^ 21 -- above any active

return Rank.strategy({
  rank = function(_, worker)
    return worker.active - worker.lifetime * LIFETIME_STEP
  end,

  choose = function(pool, kind)
    if pool.fresh == 0 then
      return nil
    end
    -- Primary: the highest lifetime that stays out of the margin.
    local margin = Worker.margin(pool)
    local lowest = -(pool.policy.max_lifetime - margin - 1) * LIFETIME_STEP
    local found = redis.call('ZRANGE', Keys.index[kind], lowest, '+inf', 'BYSCORE', 'LIMIT', '0', '1')
    -- Fallback: all that is left is inside the margin. Progress comes before staggering.
    return found[1] or Rank.first(pool, kind)
  end,

  describe = function(pool, worker)
    local bound = pool.policy.max_lifetime - Worker.margin(pool)
    return { active = worker.active, lifetime = worker.lifetime, primary_below = bound }
  end,
})

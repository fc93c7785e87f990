-- Pushes one worker to its lifetime limit while the others stay behind, so that restarts are
-- staggered. The score holds lifetime and active: highest lifetime first, then lowest active.

local LIFETIME_STEP = 2 ^ 21 -- above any active

strategies.lifetime_first = function()
  return strategy({
    rank = function(_, worker)
      return worker.active - worker.lifetime * LIFETIME_STEP
    end,

    choose = function(pool, kind)
      local fresh = redis.call('ZCARD', HEARTBEATS)
      if fresh == 0 then
        return nil
      end
      local max_lifetime = pool.policy.max_lifetime
      local margin = math.max(1, math.floor(max_lifetime / fresh))
      -- Primary: the highest lifetime that stays out of the margin.
      local lowest = -(max_lifetime - margin - 1) * LIFETIME_STEP
      local found = redis.call('ZRANGE', INDEX[kind], lowest, '+inf', 'BYSCORE', 'LIMIT', 0, 1)
      -- Fallback: all that is left is inside the margin. Progress comes before staggering.
      return found[1] or first_of_index(pool, kind)
    end,
  })
end

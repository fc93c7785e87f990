-- The time after the store may have lost data: nothing new is admitted until the holders that are
-- present have told what they hold.

local Rebuild = {}

-- Begins one. Its number is a time, so that a pool that lost everything does not begin the same again.
function Rebuild.begin(pool)
  if pool.policy.rebuild_ms == 0 then
    return
  end
  pool.rebuild = math.max(pool.rebuild + 1, math.floor(pool.wall))
  pool.rebuild_at, pool.lost_at, pool.rest = pool.now, pool.now, false
  if pool.policy.requests.limit then
    pool.rate = Rate.unknown(pool, pool.policy.requests.limit)
  end
  redis.call('DEL', Keys.awaited)
  Repair.count('rebuilds', 1)
end

function Rebuild.is_under_way(pool)
  if pool.rebuild_at == 0 then
    return false
  end
  local age = pool.now - pool.rebuild_at
  return age < pool.policy.rebuild_ms
    or (age < pool.policy.lease_ttl_ms and redis.call('ZCARD', Keys.awaited) > 0)
end

-- The same, and ends one that is over; the caller saves the pool.
function Rebuild.goes_on(pool)
  local under_way = Rebuild.is_under_way(pool)
  if pool.rebuild_at > 0 and not under_way then
    pool.rebuild_at, pool.rest = 0, false
    redis.call('DEL', Keys.awaited)
  end
  return under_way
end

-- A holder is known to be present: the rebuild waits for its beat. Returns the rebuild's number, 0 when
-- there is none to wait for.
function Rebuild.await(pool, holder)
  if holder.reported == pool.rebuild or not Rebuild.goes_on(pool) then
    return 0
  end
  redis.call('ZADD', Keys.awaited, pool.now, Holder.epoch())
  return pool.rebuild
end

-- A holder has told all that it holds.
function Rebuild.hear(pool, holder)
  if pool.rebuild_at > 0 and holder.reported ~= pool.rebuild then
    holder.reported, holder.changed = pool.rebuild, true
    redis.call('ZREM', Keys.awaited, Holder.epoch())
  end
end

return Rebuild

-- What happens by the passing of time alone: heartbeats grow stale, exiles end.

local Sweep = {}

-- One script stays below a millisecond: what is left is swept by the next call.
Sweep.MAX = 256

-- Workers whose heartbeats ended leave the index, and stop counting as fresh.
local function sweep_stale(pool)
  local oldest = '(' .. string.format('%.17g', pool.now - pool.policy.heartbeat_ttl_ms)
  local stale = redis.call('ZRANGE', Keys.heartbeats, '-inf', oldest, 'BYSCORE', 'LIMIT', 0, Sweep.MAX)
  for _, id in ipairs(stale) do
    local worker = Worker.read(pool, id)
    Index.note_heartbeat(pool, worker)
    Index.save(pool, worker)
  end
  return #stale
end

-- Workers whose exile is over may be chosen again.
local function sweep_ejected(pool)
  local back = redis.call('ZRANGE', Keys.ejected, '-inf', pool.now, 'BYSCORE', 'LIMIT', 0, Sweep.MAX)
  for _, id in ipairs(back) do
    local worker = Worker.read(pool, id)
    redis.call('ZREM', Keys.ejected, id)
    worker.ejected_until, worker.rest = 0, false
    Index.save(pool, worker)
  end
  return #back
end

-- The first of the workers that are sorted by time.
local function first_of(key)
  return tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or 1 / 0
end

-- Returns false when more is left than one script should do; and whether anything was due. The caller saves
-- the pool.
function Sweep.run(pool)
  local stale = sweep_stale(pool)
  local back = sweep_ejected(pool)
  pool.rest = false
  pool.sweep_at = math.min(first_of(Keys.heartbeats) + pool.policy.heartbeat_ttl_ms, first_of(Keys.ejected))
  return stale < Sweep.MAX and back < Sweep.MAX, stale + back > 0
end

return Sweep

-- What happens by the passing of time alone: heartbeats grow stale, exiles end.

-- One script stays below a millisecond: what is left is swept by the next call.
local SWEEP_MAX = 256

-- Workers whose heartbeats ended leave the index, and stop counting as fresh.
local function sweep_stale(pool)
  local oldest = '(' .. string.format('%.17g', pool.now - pool.policy.heartbeat_ttl_ms)
  local stale = redis.call('ZRANGE', HEARTBEATS, '-inf', oldest, 'BYSCORE', 'LIMIT', 0, SWEEP_MAX)
  for _, id in ipairs(stale) do
    local worker = read_worker(id)
    note_heartbeat(pool, worker)
    save_worker(pool, worker)
  end
  return #stale
end

-- Workers whose exile is over may be chosen again.
local function sweep_ejected(pool)
  local back = redis.call('ZRANGE', EJECTED, '-inf', pool.now, 'BYSCORE', 'LIMIT', 0, SWEEP_MAX)
  for _, id in ipairs(back) do
    local worker = read_worker(id)
    redis.call('ZREM', EJECTED, id)
    worker.ejected_until = 0
    save_worker(pool, worker)
  end
  return #back
end

-- Returns false when more is left than one script should do.
local function sweep(pool)
  local stale = sweep_stale(pool)
  local back = sweep_ejected(pool)
  return stale < SWEEP_MAX and back < SWEEP_MAX, stale + back > 0
end

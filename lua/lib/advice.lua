-- What a worker that shows a sign of life is noted for, and told.

local ADVICE = { [AVAILABLE] = 'serve', [DRAINING] = 'drain', [RECYCLING] = 'recycle' }

local function see_worker(pool, worker)
  worker.heartbeat = pool.now
  redis.call('ZADD', HEARTBEATS, pool.now, worker.id)
  redis.call('ZREM', ABSENT, worker.id)
  save_worker(pool, worker)
end

local function advice(worker)
  return { ADVICE[worker.state], tostring(worker.active), tostring(worker.lifetime) }
end

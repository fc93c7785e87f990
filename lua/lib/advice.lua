-- What a worker that shows a sign of life is noted for, and told.

local ADVICE = { [AVAILABLE] = 'serve', [DRAINING] = 'drain', [RECYCLING] = 'recycle' }

local function see_worker(pool, worker)
  worker.heartbeat = pool.now
  note_heartbeat(pool, worker)
  save_worker(pool, worker)
end

local function advice(worker)
  return { ADVICE[worker.state], tostring(worker.active), tostring(worker.lifetime) }
end

-- What a worker that shows a sign of life is noted for, and told.

local Advice = {}

local ADVICE = { [Worker.AVAILABLE] = 'serve', [Worker.DRAINING] = 'drain', [Worker.RECYCLING] = 'recycle' }

-- The load is what it reports, if it does.
function Advice.see(pool, worker, load)
  worker.heartbeat, worker.rest = pool.now, false
  Shadow.tell(pool, 'seen', worker, load)
  Index.note_heartbeat(pool, worker)
  Index.save(pool, worker)
end

function Advice.of(worker)
  return { ADVICE[worker.state], tostring(worker.active), tostring(worker.lifetime) }
end

return Advice

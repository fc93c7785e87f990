-- Ejection: a worker that cannot be reached leaves the index for a while. Without it a dead worker,
-- always idle, attracts nearly all traffic.
--
-- After its exile it gets a single probe, and stays out until the probe's fate is known. What was
-- learned from a lease older than the exile says nothing about the worker now, and is ignored.

local Ejection = {}

local EJECTS = { connect_failed = true, reset_before_headers = true }
local REACHED = { success = true, warning = true }

-- Doublings beyond this change nothing: the exile is at its maximum long before.
local EJECTIONS_MAX = 40

local function exile_ms(pool, ejections)
  return math.min(pool.policy.ejection_ms * 2 ^ (ejections - 1), pool.policy.ejection_max_ms)
end

local function exile(pool, worker)
  worker.ejected_until, worker.rest = pool.now + exile_ms(pool, worker.ejections), false
  redis.call('ZADD', Keys.ejected, worker.ejected_until, worker.id)
  Pool.sweep_by(pool, worker.ejected_until)
end

local function eject(pool, worker)
  worker.ejections = math.min(worker.ejections + 1, EJECTIONS_MAX)
  worker.ejected_at = pool.now
  exile(pool, worker)
  redis.call('HINCRBY', Keys.pool, 'ejections', 1)
end

-- Chosen for the first time after an exile: this lease is the probe, and no other follows it.
Ejection.begin_probe = exile

-- Taken since the exile began, and not judged yet: others wait for what becomes of it.
function Ejection.is_probe(worker, lease)
  return worker.ejections > 0 and lease.since >= worker.ejected_at
end

function Ejection.judge(pool, worker, lease, outcome)
  if worker.ejections > 0 and not Ejection.is_probe(worker, lease) then
    return
  end
  if EJECTS[outcome] then
    eject(pool, worker)
  elseif REACHED[outcome] and worker.ejections > 0 then
    worker.ejections, worker.ejected_at, worker.ejected_until, worker.rest = 0, 0, 0, false
    redis.call('ZREM', Keys.ejected, worker.id)
  end
end

return Ejection

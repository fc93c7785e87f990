-- heartbeat: a worker lives, and asks what to do.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   worker id
-- ARGV 2   incarnation
-- ARGV 3   what the worker says about its load, as JSON; empty for nothing
-- ARGV 4   sessions it has now; empty when it does not say
-- Returns  serve | drain | recycle, active, lifetime
--          register        this worker or this incarnation is not known
--          unknown_pool    the pool has no policy
-- Uses     Advice Pool Report Worker
-- Keeps    I11: a worker that was absent comes back by its heartbeat
-- Cost     O(log N) in the pool's workers; at most 13 calls

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local worker = Worker.read(ARGV[1])
if not worker or worker.incarnation ~= ARGV[2] or worker.state == Worker.REMOVED then
  return { 'register' }
end
local load = ARGV[3] ~= '' and cjson.decode(ARGV[3]) or nil
if load then
  local report = Report.read(worker.id)
  report.load, report.load_birth = load, worker.birth
  Report.write(worker.id, report)
end
-- Leases since its last heartbeat may be on their way to it.
local sessions = tonumber(ARGV[4])
worker.surplus = sessions and math.max(0, worker.active - sessions - worker.taken) or 0
worker.previous, worker.taken = worker.heartbeat, 0
Advice.see(pool, worker, load)
Pool.save(pool)
return Advice.of(worker)

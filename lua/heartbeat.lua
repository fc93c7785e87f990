-- heartbeat: a worker lives, and asks what to do.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   worker id
-- ARGV 2   incarnation
-- ARGV 3   what the worker says about its load, as JSON; empty for nothing
-- ARGV 4   sessions it has now; empty when it does not say
-- ARGV 5   who sends it, as in register
-- Returns  serve | drain | recycle, active, lifetime
--          not_yours       it belongs to another token
--          register        this worker or this incarnation is not known
--          unknown_pool    the pool has no policy
-- Uses     Advice Args Pool Worker
-- Keeps    I11: a worker that was absent comes back by its heartbeat
-- Cost     O(log N) in the pool's workers; at most 13 calls

Args.check(ARGV, 'ttjNt')
local load = Args.load(ARGV, 3)
local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local worker = (load and Worker.read_with_report or Worker.read)(pool, ARGV[1])
if worker and not Worker.is_of(worker, ARGV[5]) then
  return { 'not_yours' }
end
-- One that is known by its leases alone has yet to tell its limits and its lifetime.
if not worker or worker.incarnation ~= ARGV[2] or worker.state == Worker.REMOVED
  or worker.heartbeat == Worker.NEVER then
  return { 'register' }
end
if load then
  local report, as_read_again = worker.report, cmsgpack.unpack(cmsgpack.pack(load))
  report.load, report.load_birth, report.rest, worker.learned = as_read_again, worker.birth, nil, true
end
worker.previous, worker.sessions = worker.heartbeat, tonumber(ARGV[4]) or Worker.UNTOLD
Advice.see(pool, worker, load)
Pool.save(pool)
return Advice.of(worker)

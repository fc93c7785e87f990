-- heartbeat: a worker lives, and asks what to do.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   worker id
-- ARGV 2   incarnation
-- Returns  serve | drain | recycle, active, lifetime
--          register        this worker or this incarnation is not known
--          unknown_pool    the pool has no policy
-- Uses     keys rank dice estimate strategies policy pool worker index advice
-- Keeps    I11: a worker that was absent comes back by its heartbeat
-- Cost     O(log N) in the pool's workers; at most 8 calls

local pool = open_pool()
if not pool then
  return { 'unknown_pool' }
end
local worker = read_worker(ARGV[1])
if not worker or worker.incarnation ~= ARGV[2] or worker.state == REMOVED then
  return { 'register' }
end
see_worker(pool, worker)
save_pool(pool)
return advice(worker)

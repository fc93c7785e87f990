-- drain: a worker gets nothing new; its sessions go on.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   worker id
-- Returns  drain | recycle, active, lifetime
--          unknown_worker  no such worker
--          unknown_pool    the pool has no policy
-- Uses     keys rank dice estimate strategies policy pool worker index advice
-- Keeps    I11: a worker at its lifetime limit stays there
-- Cost     O(log N) in the pool's workers; at most 6 calls

local pool = open_pool()
if not pool then
  return { 'unknown_pool' }
end
local worker = read_worker(ARGV[1])
if not worker or worker.state == REMOVED then
  return { 'unknown_worker' }
end
if worker.state == AVAILABLE then
  worker.state = DRAINING
end
save_worker(pool, worker)
save_pool(pool)
return advice(worker)

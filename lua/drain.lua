-- drain: a worker gets nothing new; its sessions go on.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   worker id
-- ARGV 2   who asks for it, as in register
-- Returns  drain | recycle, active, lifetime
--          unknown_worker  no such worker
--          not_yours       it belongs to another token
--          unknown_pool    the pool has no policy
-- Uses     Advice Args Index Pool Worker
-- Keeps    I11: a worker at its lifetime limit stays there
-- Cost     O(log N) in the pool's workers; at most 6 calls

Args.check(ARGV, 'tt')
local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local worker = Worker.read(pool, ARGV[1])
if not worker or worker.state == Worker.REMOVED then
  return { 'unknown_worker' }
end
if not Worker.is_of(worker, ARGV[2]) then
  return { 'not_yours' }
end
if worker.state == Worker.AVAILABLE then
  worker.state, worker.rest = Worker.DRAINING, false
end
Index.save(pool, worker)
Pool.save(pool)
return Advice.of(worker)

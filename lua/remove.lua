-- remove: a worker leaves its pool. It is kept, out of service and out of sight, for forget_ms, so that
-- the same incarnation cannot return with its places counted as free or its lifetime as new.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   worker id
-- ARGV 2   who asks for it, as in register
-- Returns  removed, active
--          unknown_worker  no such worker
--          not_yours       it belongs to another token
--          unknown_pool    the pool has no policy
-- Uses     Args Index Pool Worker
-- Keeps    I2 I11
-- Cost     O(log N) in the pool's workers; at most 9 calls

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
worker.state, worker.heartbeat, worker.rest = Worker.REMOVED, pool.now, false
Index.note_heartbeat(pool, worker)
Index.save(pool, worker)
Pool.save(pool)
return { 'removed', tostring(worker.active) }

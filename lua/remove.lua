-- remove: a worker leaves its pool. While it has leases it is kept, out of service, so that the
-- same incarnation cannot return with its places counted as free.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   worker id
-- Returns  removed, active
--          unknown_worker  no such worker
--          unknown_pool    the pool has no policy
-- Uses     keys rank dice estimate strategies policy pool worker
-- Keeps    I2 I11
-- Cost     O(log N) in the pool's workers; at most 9 calls

local pool = open_pool()
if not pool then
  return { 'unknown_pool' }
end
local worker = read_worker(ARGV[1])
if not worker or worker.state == REMOVED then
  return { 'unknown_worker' }
end
if worker.active == 0 then
  forget_worker(pool, worker)
else
  worker.state = REMOVED
  save_worker(pool, worker)
  redis.call('ZREM', HEARTBEATS, worker.id)
  redis.call('ZREM', ABSENT, worker.id)
end
save_pool(pool)
return { 'removed', tostring(worker.active) }

-- bind: from now on, requests with this key go to the worker that the lease is on.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV 1   lease number within its holder
-- ARGV 2   the hash of the affinity key
-- Returns  bound
--          unheld          the lease is not held, or its worker has restarted
--          full            as many keys are bound as may be
--          unknown_pool    the pool has no policy
-- Uses     Affinity Args Holder Lease Pool
-- Keeps    I5: whoever does not hold a lease on a worker cannot send others there
-- Cost     at most 12 calls

Args.check(ARGV, 'lt')
local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local holder = Holder.open_for(ARGV[1])
local lease = Lease.of(holder, ARGV[1])
local worker = lease and Lease.worker_of(pool, lease)
if not worker then
  return { 'unheld' }
end
return { Affinity.bind(pool, ARGV[2], worker) and 'bound' or 'full' }

-- register: makes a worker known, or a new incarnation of a known one.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   worker id
-- ARGV 2   incarnation, text: the same one again changes nothing but the figures below
-- ARGV 3   address, ip:port
-- ARGV 4   the worker's own max_concurrent, 0 for none
-- ARGV 5   weight, above 0
-- Returns  serve | drain | recycle, active, lifetime
--          unknown_pool    the pool has no policy
-- Uses     keys rank dice estimate strategies policy pool worker index former advice
-- Keeps    I2 I3: a new incarnation starts with neither leases nor lifetime; leases of the old one
--          stay with the old one, and count again if it comes back
-- Cost     O(log N) in the pool's workers; at most 9 calls

local pool = open_pool()
if not pool then
  return { 'unknown_pool' }
end
local id, incarnation, address = ARGV[1], ARGV[2], ARGV[3]

local worker = read_worker(id) or new_worker(id)
if worker.incarnation ~= incarnation then
  if worker.state == RECYCLING then
    pool.recycle_ms = pool.now - worker.limit_at
  end
  if worker.birth > 0 then
    retire_life(worker)
  end
  begin_life(pool, worker, incarnation)
elseif worker.state == REMOVED then
  -- Whoever reached its limit in this life stays there.
  worker.state = worker.limit_at > 0 and RECYCLING or AVAILABLE
end
if worker.state == AVAILABLE and at_its_limit(pool, worker) then
  reach_limit(pool, worker) -- the limit was lowered while it was away
end
worker.address = address
worker.max_concurrent = tonumber(ARGV[4])
reweigh(pool, worker, tonumber(ARGV[5]))
see_worker(pool, worker)
save_pool(pool)
return advice(worker)

-- register: makes a worker known, or a new incarnation of a known one.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   worker id
-- ARGV 2   incarnation, text: the same one again changes nothing but the figures below
-- ARGV 3   address, ip:port
-- ARGV 4   the worker's own max_concurrent, 0 for none
-- ARGV 5   weight, above 0
-- ARGV 6   lifetime as it was last told, 0 when it was not
-- ARGV 7   its origin, empty for none
-- ARGV 8   who registers it, by the name of a token; empty when nobody was asked
-- Returns  serve | drain | recycle, active, lifetime
--          not_yours       it belongs to another token
--          crowded         the pool has as many workers as it may have
--          unknown_pool    the pool has no policy
-- Uses     Advice Args Former Pool Shadow Worker
-- Keeps    I2 I3: a new incarnation starts with neither leases nor lifetime; leases of the old one
--          stay with the old one, and count again if it comes back; a lifetime that the store has
--          forgotten is told by the worker, and never lowered; a name stays with its token
-- Cost     O(log N) in the pool's workers; at most 10 calls

Args.check(ARGV, 'tttiwitt')
local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local id, incarnation, address = ARGV[1], ARGV[2], ARGV[3]

local worker = Worker.read(pool, id)
if worker and not Worker.is_of(worker, ARGV[8]) then
  return { 'not_yours' }
end
if not worker and Worker.count() >= pool.policy.workers_max then
  return { 'crowded' }
end
worker = worker or Worker.new(id)
if ARGV[8] ~= '' then
  worker.owner = ARGV[8]
end
if worker.incarnation ~= incarnation then
  if worker.state == Worker.RECYCLING then
    pool.recycle_ms, pool.rest = pool.now - worker.limit_at, false
  end
  if worker.birth > 0 then
    Former.retire(worker)
  end
  Former.begin(pool, worker, incarnation)
end
if worker.state == Worker.REMOVED then
  -- Whoever reached its limit in this life stays there.
  worker.state = worker.limit_at > 0 and Worker.RECYCLING or Worker.AVAILABLE
end
worker.lifetime = math.max(worker.lifetime, tonumber(ARGV[6]))
if worker.state == Worker.AVAILABLE and Worker.at_its_limit(pool, worker) then
  Worker.reach_limit(pool, worker) -- the limit was lowered while it was away, or its lifetime forgotten
end
worker.address, worker.origin = address, ARGV[7]
worker.max_concurrent = tonumber(ARGV[4])
Shadow.reweigh(pool, worker, tonumber(ARGV[5]))
Advice.see(pool, worker)
Pool.save(pool)
return Advice.of(worker)

-- admit: gives a lease on the worker that the pool's strategy chooses, or says why not.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV 1   lease number within its holder, 1 .. 2^53
-- ARGV 2   lease id, text: the tombstone's name
-- ARGV 3   bytes of the request, 0 when unknown
-- ARGV 4   operation: query, execute or begin
-- ARGV 5   the worker that the request stands on, empty for none
-- ARGV 6   the holder's proxy
-- Returns  admitted, worker, incarnation, address, active, lifetime, probe (0 or 1)
--          denied, reason, retry_after_ms
--          again           more is to be swept than one call should do: call again
--          unknown_pool    the pool has no policy
-- Uses     Ejection Holder Lease Pool Rank Rebuild Sweep Worker
-- Keeps    I1 I2 I3 I4 I5: an id already held gets the same answer and counts once; an ended id
--          is never admitted again, nor one that its holder's last beat did not ask for
-- Cost     O(log N) in the pool's workers; at most 18 calls when nothing is to be swept

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local seq, lease_id = ARGV[1], ARGV[2]
local request = { bytes = tonumber(ARGV[3]), operation = ARGV[4], own = ARGV[5] }

local function admitted(worker, lifetime, probe)
  return { 'admitted', worker.id, worker.incarnation, worker.address, tostring(worker.active),
    string.format('%.0f', lifetime), probe and '1' or '0' }
end

local function denied(reason)
  redis.call('HINCRBY', Keys.pool, 'rejected:' .. reason, 1)
  return { 'denied', reason, string.format('%.0f', pool.policy.retry_after_ms) }
end

local holder, beat = Holder.open(seq), Holder.beat_of(seq)
if holder.reclaimed_at > 0 then
  return denied('cancelled')
end
local held = Lease.of(holder, seq)
if held then
  local worker = Lease.worker_of(held)
  if worker then
    return admitted(worker, held.lifetime, Ejection.is_probe(worker, held))
  end
  -- Its worker has restarted: the place it named is gone.
  Lease.give_back(pool, nil, held, holder, seq, false)
  Lease.bury(pool, lease_id)
  Holder.save(holder)
  Pool.save(pool)
  return denied('cancelled')
end
if beat > 0 and holder.beat == Holder.UNHEARD then
  return denied('rebuilding') -- the store has forgotten who this is
end
if beat < holder.beat and not Holder.was_asking(seq) then
  return denied('cancelled') -- it ended unheard
end
if Lease.is_buried(lease_id) then
  return denied('cancelled')
end
if Rebuild.goes_on(pool) then
  return denied('rebuilding')
end

local swept, changed = Sweep.run(pool)
if changed then
  Pool.save(pool)
end
if not swept then
  return { 'again' }
end

local kind = pool.strategy.kind_of(pool, request)
local member = pool.strategy.choose(pool, kind, request)
if not member then
  return denied(pool.open > 0 and 'pool_full' or 'no_worker')
end
local worker = Worker.read(Rank.worker_in(pool, member))
local probe = Ejection.begin_probe(pool, worker)
if not holder.known then
  Holder.note(pool, holder, ARGV[6])
end
holder.beat = math.max(holder.beat, 0)
Lease.take(pool, worker, holder, seq, kind)
Holder.save(holder)
Pool.note_admission(pool)
Pool.save(pool)
return admitted(worker, worker.lifetime, probe)

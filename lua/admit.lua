-- admit: gives leases on the workers that the pool's strategy chooses, or says why not, to one request
-- after the other.
--
-- KEYS     the pool's keys, and for each request its holder's (lib/keys.lua)
-- ARGV     for each request ten, at most 32 requests:
--          1   lease number within its holder, 1 .. 2^53
--          2   lease id, text: the tombstone's name
--          3   bytes of the request, 0 when unknown
--          4   operation: query, execute or begin
--          5   the worker that the request stands on, empty for none
--          6   the holder's proxy
--          7   client: the hash of its key, empty for none
--          8   affinity: the hash of its key, empty for none
--          9   1: a key that is not bound yet is to be bound
--          10  1: another worker than the one the request stands on is not routed to
-- Returns  for each request, one behind the other:
--          admitted, worker, incarnation, address, active, lifetime, probe (0 or 1)
--          denied, reason, retry_after_ms
--          redirected, worker, origin      no lease was taken
--          and of all of them:
--          again           more is to be swept than one call should do: call again
--          unknown_pool    the pool has no policy
-- Uses     Decision Holder Lease Pool Sweep
-- Keeps    I1 I2 I3 I4 I5: an id already held gets the same answer and counts once; an ended id
--          is never admitted again, nor one that its holder's last beat did not ask for
-- Cost     O(log N) in the pool's workers; 9 or 10 calls for one request when nothing is to be swept (14 with
--          sewt or score); each further one of a group shares all but 2 or 3, and the first of each holder's
--          and on each worker. 2 more with a client or an affinity key, 3 with a new key, and 3 with a
--          strategy in the shadow that ranks by one index (tests/budget.rs)

local FIELDS = Decision.FIELDS
local REQUESTS_MAX = 32
local count = #ARGV / FIELDS
if count % 1 ~= 0 or count > #KEYS - Keys.FIRST_HOLDER + 1 then
  error('each request has its holder')
end
count = count < REQUESTS_MAX and count or REQUESTS_MAX

local requests = Decision.requests(ARGV, count)

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
if pool.now >= pool.sweep_at then
  if not Sweep.run(pool) then
    Pool.save(pool)
    return { 'again' }
  end
  Pool.flush(pool)
  pool.changed = true
end

-- Nearly all come alone, and need nothing of what holds a group together.
if count == 1 then
  local request = requests[1]
  local holder = Holder.open_for(request.seq)
  request.is_buried = Lease.is_buried(request.lease_id)
  local answer = Decision.of(pool, request, holder)
  if pool.changed then
    Holder.save(holder)
    Pool.save(pool)
  end
  return answer
end

-- Of a group, all that is known by name is read once, and written once.
local lease_ids, keys, numbers_of = {}, {}, {}
for nth = 1, count do
  local request = requests[nth]
  local key = KEYS[Keys.FIRST_HOLDER + nth - 1]
  lease_ids[nth] = request.lease_id
  if not numbers_of[key] then
    keys[#keys + 1], numbers_of[key] = key, {}
  end
  table.insert(numbers_of[key], request.seq)
end
local holders, buried = {}, {}
for _, key in ipairs(keys) do
  Keys.holder = key
  holders[key] = Holder.open(numbers_of[key])
end
for nth, time in ipairs(Lease.burials(lease_ids)) do
  buried[lease_ids[nth]] = time
end

local answers = {}
for nth = 1, count do
  local request = requests[nth]
  Keys.holder = KEYS[Keys.FIRST_HOLDER + nth - 1]
  request.is_buried = buried[request.lease_id]
  for _, word in ipairs(Decision.of(pool, request, holders[Keys.holder])) do
    answers[#answers + 1] = word
  end
  buried[request.lease_id] = request.is_buried -- it may have ended just now, and be asked for again
end
if pool.changed then
  for _, key in ipairs(keys) do
    Keys.holder = key
    Holder.save(holders[key])
  end
  Pool.save(pool)
end
return answers

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
-- Uses     Affinity Args Client Ejection Holder Index Lease Limits Pool Rank Rebuild Shadow Sweep
-- Keeps    I1 I2 I3 I4 I5: an id already held gets the same answer and counts once; an ended id
--          is never admitted again, nor one that its holder's last beat did not ask for
-- Cost     O(log N) in the pool's workers; 3 calls for all and 6 to 8 for each request when nothing is to be
--          swept (11 with sewt, 13 with score); 4 more with a client, 5 with a new affinity key, none with
--          one that is bound, and about 7 with a strategy in the shadow (tests/budget.rs)

Args.check(ARGV, '', 'ljnjjttjjj')

local FIELDS = 10
local REQUESTS_MAX = 32
assert(#ARGV / FIELDS <= #KEYS - Keys.FIRST_HOLDER + 1, 'each request has its holder')

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
if pool.now >= pool.sweep_at then
  local swept = Sweep.run(pool)
  Pool.save(pool)
  if not swept then
    return { 'again' }
  end
end

-- What is answered, and whether the pool is to be saved.
local answers, changed = {}, false

local function answer(...)
  for _, word in ipairs({ ... }) do
    answers[#answers + 1] = word
  end
end

local function admitted(worker, lifetime, probe)
  answer('admitted', worker.id, worker.incarnation, worker.address, tostring(worker.active),
    string.format('%.0f', lifetime), probe and '1' or '0')
end

local function denied(reason, wait_ms)
  redis.call('HINCRBY', Keys.pool, 'rejected:' .. reason, 1)
  answer('denied', reason, string.format('%.0f', math.ceil(wait_ms or pool.policy.retry_after_ms)))
end

local function decide(request)
  local seq, lease_id = request.seq, request.lease_id
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
    changed = true
    return denied('cancelled')
  end
  -- The first beat and what was asked after it may overtake each other. Later ones: the store has
  -- forgotten who this is.
  if beat > 1 and holder.beat == Holder.UNHEARD then
    return denied('rebuilding')
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

  local kind = pool.strategy.kind_of(pool, request)
  local affinity = Affinity.of(pool, request.affinity, request.bind)
  if affinity.lost then
    return denied('affinity_lost')
  end
  local client = Client.open(pool, request.client)
  local chosen, other, shadow_kind = false, nil, 1
  -- What a worker has bound passes every limit, because what it began must be ended. A key of the client's
  -- own making leads to its worker too, but opens nothing else.
  local worker, unlimited = affinity.required, affinity.required and not request.bind
  if not unlimited then
    local reason, wait_ms = Limits.refusal(pool, client)
    if reason then
      return denied(reason, wait_ms)
    end
  end
  if not worker then
    local preferred = affinity.preferred
    if preferred and Rank.is_ranked(preferred, kind) then
      worker = preferred
    else
      worker, chosen = Rank.choose(pool, kind, request.own)
    end
    if not worker and pool.open > 0 and Limits.is_watched(pool, 'max_concurrent') then
      worker, chosen = Rank.any_full(pool), false
      if worker then
        Limits.count_shadowed('max_concurrent')
      end
    end
    if not worker then
      return denied(pool.open > 0 and 'pool_full' or 'no_worker')
    end
  end
  if request.redirect and worker.id ~= request.own and worker.origin ~= '' then
    if chosen and pool.strategy.draws then
      pool.strategy.taken(pool, worker, kind) -- over there it is taken for itself, and not drawn
      Index.save(pool, worker)
    end
    changed = true
    return answer('redirected', worker.id, worker.origin)
  end
  if chosen then
    other, shadow_kind = Shadow.choose(pool, request, worker, Index.rank)
  end

  local probe = Ejection.begin_probe(pool, worker)
  if not holder.known then
    Holder.note(pool, holder, request.proxy)
  end
  if not unlimited then
    Limits.take(pool, client)
  end
  if chosen then
    Shadow.compare(pool, other, worker)
  end
  Lease.take(pool, worker, holder, seq, { chosen = chosen, kind = kind, shadow_kind = shadow_kind,
    bound = affinity.required and 1 or 0, client = client and client.counted_as or '' })
  Affinity.follow(pool, affinity, request.affinity, worker)
  Holder.save(holder)
  Pool.note_admission(pool)
  changed = true
  return admitted(worker, worker.lifetime, probe)
end

for first = 1, math.min(#ARGV, REQUESTS_MAX * FIELDS), FIELDS do
  if first > 1 then
    Pool.flush(pool) -- the next one reads what this one has changed
    Keys.holder = KEYS[Keys.FIRST_HOLDER + (first - 1) / FIELDS]
  end
  decide({ seq = ARGV[first], lease_id = ARGV[first + 1], bytes = tonumber(ARGV[first + 2]),
    operation = ARGV[first + 3], own = ARGV[first + 4], proxy = ARGV[first + 5],
    client = ARGV[first + 6], affinity = ARGV[first + 7], bind = ARGV[first + 8] == '1',
    redirect = ARGV[first + 9] == '1' })
end
if changed then
  Pool.save(pool)
end
return answers

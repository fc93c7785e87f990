-- What becomes of one request for a lease. Everything is looked at before anything is changed: no write comes
-- before the last reason to deny.

local Decision = {}

-- How many arguments a request has.
local FIELDS = 10
Decision.FIELDS = FIELDS

-- The requests of a group, filled anew by each call: to lay out a table costs more than to fill it.
local requests = {}

-- As it was asked; then, once it is to get a lease, what that is to have of it.
local function new_request()
  return { seq = '', number = 0, lease_id = '', is_buried = false, bytes = 0, operation = '', own = '', proxy = '',
    client = '', affinity = '', bind = false, redirect = false,
    kind = 1, shadow_kind = 1, bound = 0, counted_as = '' }
end

local function read(request, args, at)
  request.seq, request.number, request.lease_id = args[at + 1], Args.lease(args, at + 1), args[at + 2]
  request.bytes, request.operation, request.own = Args.number(args, at + 3), Args.operation(args, at + 4), args[at + 5]
  Args.texts(args, at + 6, at + 7)
  request.proxy, request.client, request.affinity = args[at + 6], args[at + 7], args[at + 8]
  request.bind, request.redirect, request.is_buried = args[at + 9] == '1', args[at + 10] == '1', false
end

-- The requests, as lua/admit.lua describes them; those behind the last are of another time. They are checked as
-- they are read.
function Decision.requests(args, count)
  for nth = 1, count do
    requests[nth] = requests[nth] or new_request()
    read(requests[nth], args, (nth - 1) * FIELDS)
  end
  return requests
end

local function admitted(worker, lifetime, probe)
  return { 'admitted', worker.id, worker.incarnation, worker.address, worker.active, lifetime, probe and '1' or '0' }
end

local function denied(pool, reason, wait_ms)
  redis.call('HINCRBY', Keys.pool, 'rejected:' .. reason, '1')
  return { 'denied', reason, string.format('%.0f', math.ceil(wait_ms or pool.policy.retry_after_ms)) }
end

-- The id is held already: the answer is the same as the first time.
local function answer_again(pool, request, holder, held)
  local worker = Lease.worker_of(pool, held)
  if worker then
    return admitted(worker, held.lifetime, Ejection.is_probe(worker, held))
  end
  -- Its worker has restarted: the place it named is gone.
  Lease.give_back(pool, nil, held, holder, request.seq, false)
  Lease.bury(pool, { request.lease_id })
  request.is_buried, pool.changed = true, true
  return denied(pool, 'cancelled')
end

-- Why this id gets nothing, whoever asks; nil when it may get something.
local function refusal_of_id(pool, request, holder)
  local beat = Holder.beat_of(request.number)
  -- The first beat and what was asked after it may overtake each other. Later ones: the store has
  -- forgotten who this is.
  if beat > 1 and holder.beat == Holder.UNHEARD then
    return 'rebuilding'
  end
  if beat < holder.beat and not Holder.was_asking(request.seq) then
    return 'cancelled' -- it ended unheard
  end
  if request.is_buried then
    return 'cancelled'
  end
  if pool.rebuild_at > 0 and Rebuild.goes_on(pool) then
    return 'rebuilding'
  end
end

-- What is kept by the request's keys; nil when it has none that matter.
local function open_visit(pool, request)
  local fields = {}
  Client.add_fields(pool, request.client, fields)
  Affinity.add_fields(request.affinity, fields)
  return #fields > 0 and Visit.open(fields) or nil
end

-- The worker that the request goes to, or nil, and whether it was the strategy that chose.
local function choose(pool, request, kind, preferred)
  if preferred and Rank.is_ranked(preferred, kind) then
    return preferred, false
  end
  local worker, chosen = Rank.choose(pool, kind, request.own)
  if not worker and pool.open > 0 and Limits.is_watched(pool, 'max_concurrent') then
    worker, chosen = Rank.any_full(pool), false
    if worker then
      Limits.count_shadowed('max_concurrent')
    end
  end
  return worker, chosen
end

local function redirected(pool, worker, kind, chosen)
  if chosen and pool.strategy.draws then
    pool.strategy.taken(pool, worker, kind) -- over there it is taken for itself, and not drawn
    Index.save(pool, worker)
  end
  pool.changed = true
  return { 'redirected', worker.id, worker.origin }
end

-- Returns the answer, as lua/admit.lua describes it, and sets pool.changed if the pool and the holder are to be
-- saved.
function Decision.of(pool, request, holder)
  if holder.reclaimed_at > 0 then
    return denied(pool, 'cancelled')
  end
  local held = Lease.of(holder, request.seq)
  if held then
    return answer_again(pool, request, holder, held)
  end
  local refusal = refusal_of_id(pool, request, holder)
  if refusal then
    return denied(pool, refusal)
  end

  local kind = pool.strategy.kind_of(pool, request)
  local visit, affinity, client = nil, Affinity.NONE, nil
  if request.client ~= '' or request.affinity ~= '' then
    visit = open_visit(pool, request)
    affinity = Affinity.of(pool, visit, request.affinity, request.bind)
    if affinity.lost then
      return denied(pool, 'affinity_lost')
    end
    client = Client.open(pool, visit, request.client)
  end
  -- What a worker has bound passes every limit, because what it began must be ended. A key of the client's
  -- own making leads to its worker too, but opens nothing else.
  local worker, chosen, unlimited = affinity.required, false, affinity.required and not request.bind
  local limited = pool.policy.is_limited and not unlimited
  if limited then
    local reason, wait_ms = Limits.refusal(pool, client)
    if reason then
      return denied(pool, reason, wait_ms)
    end
  end
  if not worker then
    worker, chosen = choose(pool, request, kind, affinity.preferred)
    if not worker then
      return denied(pool, pool.open > 0 and 'pool_full' or 'no_worker')
    end
  end
  if request.redirect and worker.id ~= request.own and worker.origin ~= '' then
    return redirected(pool, worker, kind, chosen)
  end
  local other, shadow_kind = nil, 1
  if chosen and pool.shadow then
    other, shadow_kind = Shadow.choose(pool, request, Index.rank)
  end

  pool.changed = true
  local probe = worker.ejections > 0
  if probe then
    Ejection.begin_probe(pool, worker)
  end
  if not holder.known then
    Holder.note(pool, holder, request.proxy)
  end
  if limited then
    Limits.take(pool, visit, client)
  end
  if chosen and pool.shadow then
    Shadow.compare(pool, other, worker)
  end
  request.kind, request.shadow_kind = kind, shadow_kind
  request.bound, request.counted_as = affinity.required and 1 or 0, client and client.counted_as or ''
  Lease.take(pool, worker, holder, request, chosen)
  if client then
    Client.enter(visit, client)
  end
  if visit then
    Affinity.follow(pool, visit, affinity, request.affinity, worker)
    Visit.save(visit)
  end
  Pool.note_admission(pool)
  return admitted(worker, worker.lifetime, probe)
end

return Decision

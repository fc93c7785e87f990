-- Leases and the figures derived from them: active, lifetime and connections change here only.

local Lease = {}

-- birth, lifetime, since; kind with the shadow strategy's, told, bound (0 or 1); worker; client: the name
-- it is counted under.
local LEASE = '>dddBBBBc0Bc0'

-- What a worker's record can keep of it. A worker that is never restarted may come as far; it stays there.
local LIFETIME_MAX = 2 ^ 32 - 1

-- Above any kind.
local KINDS = 4

-- What a lease has told of its worker, as a number; 0 for nothing yet.
local TOLD = { success = 1, warning = 2, connect_failed = 3, reset_before_headers = 4, reset = 5,
  timeout = 6, unknown = 7 }

function Lease.unpack(text)
  local lease = { birth = 0, lifetime = 0, since = 0, kind = 1, shadow_kind = 1, told = 0, bound = 0, worker = '',
    client = '' }
  local kinds
  lease.birth, lease.lifetime, lease.since, kinds, lease.told, lease.bound, lease.worker,
    lease.client = struct.unpack(LEASE, text)
  lease.kind, lease.shadow_kind = kinds % KINDS, math.floor(kinds / KINDS)
  return lease
end

-- The holder's lease of this number, as it was opened with it.
function Lease.of(holder, seq)
  local text = holder.leases[seq]
  return text and Lease.unpack(text)
end

local function put_lease(holder, seq, lease)
  Holder.put(holder, seq, struct.pack(LEASE, lease.birth, lease.lifetime, lease.since,
    lease.kind + KINDS * lease.shadow_kind, lease.told, lease.bound, #lease.worker, lease.worker,
    #lease.client, lease.client))
end

-- Gives the request its lease on this worker; `chosen` is whether by the strategy. The caller saves the holder,
-- here and below.
function Lease.take(pool, worker, holder, request, chosen)
  local kind, shadow_kind, bound, client = request.kind, request.shadow_kind, request.bound, request.counted_as
  pool.connections = pool.connections + 1
  pool.seq = pool.seq + 1
  worker.seq = pool.seq
  worker.active = worker.active + 1
  if bound ~= 0 then
    worker.bound, worker.rest = worker.bound + bound, false
  end
  if worker.lifetime < LIFETIME_MAX then
    worker.lifetime = worker.lifetime + 1
  end
  if worker.state == Worker.AVAILABLE and Worker.at_its_limit(pool, worker) then
    Worker.reach_limit(pool, worker)
  end
  if chosen or not pool.strategy.draws then
    pool.strategy.taken(pool, worker, kind)
  end
  if pool.shadow then
    Shadow.taken(pool, worker, shadow_kind)
  end
  Index.save(pool, worker)
  Holder.put(holder, request.seq, struct.pack(LEASE, worker.birth, worker.lifetime, pool.now,
    kind + KINDS * shadow_kind, 0, bound, #worker.id, worker.id, #client, client))
end

-- Re-asserted leases are older than anything the store knows: no report has yet to hear of them.
Lease.SINCE_BEFORE = 0

-- The holder has a lease that the store does not have. It was chosen long ago, so the strategy is not
-- told of a choice, and its lifetime was counted then. Returns whether the limit is passed by it.
function Lease.reassert(pool, crew, holder, seq, told)
  local worker = Crew.read(crew, told.worker)
  if not worker then
    worker = Worker.new(told.worker)
    worker.heartbeat, worker.address = Worker.NEVER, told.address
    Former.begin(pool, worker, told.incarnation)
    Index.note_heartbeat(pool, worker)
    Crew.join(crew, worker)
  end
  local life = worker
  if worker.incarnation ~= told.incarnation then
    life = Former.reassert(pool, worker.id, told.incarnation, told.lifetime)
  else
    worker.active = worker.active + 1
    worker.lifetime = math.max(worker.lifetime, told.lifetime)
    if worker.state == Worker.AVAILABLE and Worker.at_its_limit(pool, worker) then
      Worker.reach_limit(pool, worker)
    end
  end
  pool.connections = pool.connections + 1
  put_lease(holder, seq, { birth = life.birth, lifetime = told.lifetime, since = Lease.SINCE_BEFORE,
    kind = 1, shadow_kind = 1, told = 0, bound = 0, worker = worker.id,
    client = Client.return_as(pool, told.client) })
  return life.active > Worker.limit(pool, life)
end

-- Returns the worker if this is still the incarnation that the lease was taken on.
function Lease.worker_of(pool, lease)
  local worker = Worker.read(pool, lease.worker)
  if worker and worker.birth == lease.birth then
    return worker
  end
  return nil
end

-- Gives the place back, and the lifetime too if the lease was never used. The caller saves the
-- worker, because what the lease has learned about it may change its place once more. Without a
-- worker, the lease belongs to a former life of it.
function Lease.give_back(pool, worker, lease, holder, seq, used)
  Holder.drop(holder, seq)
  Client.leave(lease.client)
  pool.connections = pool.connections - 1
  if worker then
    worker.active = math.max(0, worker.active - 1)
    if lease.bound ~= 0 then
      worker.bound, worker.rest = worker.bound - lease.bound, false
    end
    worker.lifetime = math.max(0, worker.lifetime - (used and 0 or 1))
    Shadow.tell_of(pool, 'left', worker, lease)
  else
    Former.give_back(lease, used)
  end
end

function Lease.has_told(lease)
  return lease.told ~= 0
end

-- Whether this outcome is news: the same one is told by an observation and again by the release.
function Lease.tells_anew(lease, outcome)
  return lease.told ~= TOLD[outcome]
end

function Lease.note_told(holder, seq, lease, outcome)
  lease.told = TOLD[outcome]
  put_lease(holder, seq, lease)
end

-- An ended lease is never admitted again, however late its question comes.
function Lease.bury(pool, lease_ids)
  local until_ms = pool.now + pool.policy.lease_ttl_ms
  if #lease_ids == 1 then
    redis.call('ZADD', Keys.tombstones, until_ms, lease_ids[1])
  elseif #lease_ids > 1 then
    local time, burials = string.format('%.17g', until_ms), {}
    for i = 1, #lease_ids do
      burials[2 * i - 1], burials[2 * i] = time, lease_ids[i]
    end
    redis.call('ZADD', Keys.tombstones, unpack(burials))
  end
end

function Lease.is_buried(lease_id)
  return redis.call('ZSCORE', Keys.tombstones, lease_id)
end

-- For each of these, when it is forgotten that it has ended; false for one that has not.
function Lease.burials(lease_ids)
  return #lease_ids > 0 and redis.call('ZMSCORE', Keys.tombstones, unpack(lease_ids)) or {}
end

return Lease

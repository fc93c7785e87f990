-- Leases and the figures derived from them: active, lifetime and connections change here only.

local Lease = {}

local LEASE = '>dddBBBc0'

-- What a lease has told of its worker, as a number; 0 for nothing yet.
local TOLD = { success = 1, warning = 2, connect_failed = 3, reset_before_headers = 4, reset = 5,
  timeout = 6, unknown = 7 }

function Lease.read(seq)
  local text = redis.call('HGET', Keys.holder, seq)
  if not text then
    return nil
  end
  local lease = {}
  lease.birth, lease.lifetime, lease.since, lease.kind, lease.told, lease.worker =
    struct.unpack(LEASE, text)
  return lease
end

local function write_lease(seq, lease)
  redis.call('HSET', Keys.holder, seq, struct.pack(LEASE, lease.birth, lease.lifetime, lease.since,
    lease.kind, lease.told, #lease.worker, lease.worker))
end

function Lease.take(pool, worker, seq, kind)
  pool.connections = pool.connections + 1
  pool.seq = pool.seq + 1
  worker.seq = pool.seq
  worker.active = worker.active + 1
  worker.lifetime = worker.lifetime + 1
  if Worker.at_its_limit(pool, worker) then
    Worker.reach_limit(pool, worker)
  end
  pool.strategy.taken(pool, worker, kind)
  Index.save(pool, worker)
  write_lease(seq, { birth = worker.birth, lifetime = worker.lifetime, since = pool.now,
    kind = kind, told = 0, worker = worker.id })
end

-- Returns the worker if this is still the incarnation that the lease was taken on.
function Lease.worker_of(lease)
  local worker = Worker.read(lease.worker)
  if worker and worker.birth == lease.birth then
    return worker
  end
  return nil
end

-- Gives the place back, and the lifetime too if the lease was never used. The caller saves the
-- worker, because what the lease has learned about it may change its place once more. Without a
-- worker, the lease belongs to a former life of it.
function Lease.give_back(pool, worker, lease, seq, used)
  redis.call('HDEL', Keys.holder, seq)
  pool.connections = pool.connections - 1
  if worker then
    worker.active = worker.active - 1
    worker.lifetime = worker.lifetime - (used and 0 or 1)
    pool.strategy.left(pool, worker, lease)
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

function Lease.note_told(seq, lease, outcome)
  lease.told = TOLD[outcome]
  write_lease(seq, lease)
end

-- An ended lease is never admitted again, however late its question comes.
function Lease.bury(pool, lease_id)
  redis.call('ZADD', Keys.tombstones, pool.now + pool.policy.lease_ttl_ms, lease_id)
end

return Lease

-- Leases and the figures derived from them: active, lifetime and connections change here only.

local LEASE = '>dddBBc0'

local function read_lease(seq)
  local text = redis.call('HGET', HOLDER, seq)
  if not text then
    return nil
  end
  local lease = {}
  lease.birth, lease.lifetime, lease.since, lease.kind, lease.worker = struct.unpack(LEASE, text)
  return lease
end

local function take_lease(pool, worker, seq, kind)
  pool.connections = pool.connections + 1
  pool.seq = pool.seq + 1
  worker.seq = pool.seq
  worker.active = worker.active + 1
  worker.lifetime = worker.lifetime + 1
  if at_its_limit(pool, worker) then
    reach_limit(pool, worker)
  end
  pool.strategy.taken(pool, worker)
  redis.call('HSET', HOLDER, seq,
    struct.pack(LEASE, worker.birth, worker.lifetime, pool.now, kind, #worker.id, worker.id))
  save_worker(pool, worker)
end

-- Returns the worker if this is still the incarnation that the lease was taken on.
local function worker_of(lease)
  local worker = read_worker(lease.worker)
  if worker and worker.birth == lease.birth then
    return worker
  end
  return nil
end

-- Gives the place back, and the lifetime too if the lease was never used. The caller saves the
-- worker, because what the lease has learned about it may change its place once more. Without a
-- worker, the lease belongs to a former life of it.
local function give_back_lease(pool, worker, lease, seq, used)
  redis.call('HDEL', HOLDER, seq)
  pool.connections = pool.connections - 1
  if worker then
    worker.active = worker.active - 1
    worker.lifetime = worker.lifetime - (used and 0 or 1)
  else
    give_back_to_former(lease, used)
  end
end

-- An ended lease is never admitted again, however late its question comes.
local function bury_lease(pool, lease_id)
  redis.call('ZADD', TOMBSTONES, pool.now + pool.policy.lease_ttl_ms, lease_id)
end

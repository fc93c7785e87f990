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

-- The worker has had all the sessions it may have. It gets nothing new until it restarts, even if
-- a lifetime is given back meanwhile: it may have been told already.
local function reach_limit(pool, worker)
  worker.state = RECYCLING
  worker.limit_at = pool.now
  pool.recycles = pool.recycles + 1
end

local function at_its_limit(pool, worker)
  local max_lifetime = pool.policy.max_lifetime
  return max_lifetime > 0 and worker.lifetime >= max_lifetime
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
-- worker, because what the lease has learned about it may change its place once more.
local function give_back_lease(pool, worker, seq, used)
  redis.call('HDEL', HOLDER, seq)
  pool.connections = pool.connections - 1
  if worker then
    worker.active = worker.active - 1
    if not used then
      worker.lifetime = worker.lifetime - 1
    end
  end
end

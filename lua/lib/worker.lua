-- A worker's record, and its place in the index. Both are written together, by save_worker alone.

local WORKER = '>IIdddIddBBddBBddBBc0Bc0Bc0'

local AVAILABLE = 0
local DRAINING = 1 -- finishes its sessions and stays
local RECYCLING = 2 -- finishes its sessions and restarts
local REMOVED = 3 -- finishes its sessions and is forgotten

local function new_worker(id)
  return {
    id = id, active = 0, lifetime = 0, seq = 0, heartbeat = 0, birth = 0, max_concurrent = 0,
    weight = 1, limit_at = 0, state = AVAILABLE, ejections = 0, ejected_at = 0, ejected_until = 0,
    open = 0, at_limit = 0, clock = 0, score = 0, indexed = 0, prefix = '', incarnation = '',
    address = '',
  }
end

local function read_worker(id)
  local text = redis.call('HGET', WORKERS, id)
  if not text then
    return nil
  end
  local worker = { id = id }
  worker.active, worker.lifetime, worker.seq, worker.heartbeat, worker.birth,
    worker.max_concurrent, worker.weight, worker.limit_at, worker.state, worker.ejections,
    worker.ejected_at, worker.ejected_until, worker.open, worker.at_limit, worker.clock,
    worker.score, worker.indexed, worker.prefix, worker.incarnation, worker.address =
    struct.unpack(WORKER, text)
  return worker
end

local function is_fresh(pool, worker)
  return pool.now - worker.heartbeat <= pool.policy.heartbeat_ttl_ms
end

-- Could serve if it had room.
local function is_open(pool, worker)
  local max_lifetime = pool.policy.max_lifetime
  return worker.state == AVAILABLE and worker.ejected_until == 0 and is_fresh(pool, worker)
    and (max_lifetime == 0 or worker.lifetime < max_lifetime)
end

-- The worker may lower the pool's limit for itself, never raise it.
local function has_room(pool, worker)
  local limit = pool.policy.max_concurrent
  if worker.max_concurrent > 0 then
    limit = math.min(limit, worker.max_concurrent)
  end
  return worker.active < limit
end

-- Brings the pool's figures in line with the worker.
local function count_worker(pool, worker)
  local open = is_open(pool, worker) and 1 or 0
  local at_limit = worker.state == RECYCLING and is_fresh(pool, worker) and 1 or 0
  pool.open = pool.open + open - worker.open
  pool.at_limit = pool.at_limit + at_limit - worker.at_limit
  if at_limit > worker.at_limit and pool.at_limit > 1 then
    pool.overlaps = pool.overlaps + 1
  end
  worker.open, worker.at_limit = open, at_limit
end

-- Brings the index and the pool's figures in line with the worker and stores its record.
local function save_worker(pool, worker)
  count_worker(pool, worker)
  local score, prefix = 0, ''
  local indexed = worker.open == 1 and has_room(pool, worker)
  if indexed then
    if worker.indexed == 0 then
      pool.strategy.enter(pool, worker)
    end
    score, prefix = pool.strategy.rank(worker)
  end
  if worker.indexed == 1 and (not indexed or prefix ~= worker.prefix) then
    redis.call('ZREM', INDEX, worker.prefix .. worker.id)
  end
  if indexed and (worker.indexed == 0 or prefix ~= worker.prefix or score ~= worker.score) then
    redis.call('ZADD', INDEX, score, prefix .. worker.id)
  end
  worker.indexed, worker.score, worker.prefix = indexed and 1 or 0, score, prefix

  redis.call('HSET', WORKERS, worker.id, struct.pack(WORKER,
    worker.active, worker.lifetime, worker.seq, worker.heartbeat, worker.birth,
    worker.max_concurrent, worker.weight, worker.limit_at, worker.state, worker.ejections,
    worker.ejected_at, worker.ejected_until, worker.open, worker.at_limit, worker.clock,
    worker.score, worker.indexed, #worker.prefix, worker.prefix, #worker.incarnation,
    worker.incarnation, #worker.address, worker.address))
end

-- Deletes every trace of a worker that has no leases.
local function forget_worker(pool, worker)
  worker.state = REMOVED
  save_worker(pool, worker)
  redis.call('ZREM', HEARTBEATS, worker.id)
  redis.call('ZREM', ABSENT, worker.id)
  redis.call('ZREM', EJECTED, worker.id)
  redis.call('HDEL', WORKERS, worker.id)
end

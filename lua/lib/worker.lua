-- A worker's record, and its place in the index. Both are written together, by save_worker alone.

local WORKER = '>IIdddIddBBddBBBddddBc0Bc0Bc0Bc0'

local AVAILABLE = 0
local DRAINING = 1 -- finishes its sessions and stays
local RECYCLING = 2 -- finishes its sessions and restarts
local REMOVED = 3 -- finishes its sessions and is forgotten

-- Not in a kind's index: no rank is as high.
local UNRANKED = math.huge

local function new_worker(id)
  return {
    id = id, active = 0, lifetime = 0, seq = 0, heartbeat = 0, birth = 0, max_concurrent = 0,
    weight = 1, limit_at = 0, state = AVAILABLE, ejections = 0, ejected_at = 0, ejected_until = 0,
    open = 0, at_limit = 0, eligible = 0, clock = 0, scores = { UNRANKED, UNRANKED, UNRANKED },
    prefix = '', incarnation = '', address = '', inputs = '',
  }
end

local function read_worker(id)
  local text = redis.call('HGET', WORKERS, id)
  if not text then
    return nil
  end
  local worker, scores = { id = id }, {}
  worker.active, worker.lifetime, worker.seq, worker.heartbeat, worker.birth,
    worker.max_concurrent, worker.weight, worker.limit_at, worker.state, worker.ejections,
    worker.ejected_at, worker.ejected_until, worker.open, worker.at_limit, worker.eligible,
    worker.clock, scores[1], scores[2], scores[3], worker.prefix, worker.incarnation,
    worker.address, worker.inputs = struct.unpack(WORKER, text)
  worker.scores = scores
  return worker
end

local function write_worker(worker)
  local scores = worker.scores
  redis.call('HSET', WORKERS, worker.id, struct.pack(WORKER,
    worker.active, worker.lifetime, worker.seq, worker.heartbeat, worker.birth,
    worker.max_concurrent, worker.weight, worker.limit_at, worker.state, worker.ejections,
    worker.ejected_at, worker.ejected_until, worker.open, worker.at_limit, worker.eligible,
    worker.clock, scores[1], scores[2], scores[3], #worker.prefix, worker.prefix,
    #worker.incarnation, worker.incarnation, #worker.address, worker.address,
    #worker.inputs, worker.inputs))
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

-- Where its last heartbeat belongs: who is not fresh is absent.
local function note_heartbeat(pool, worker)
  local fresh = worker.state ~= REMOVED and is_fresh(pool, worker)
  redis.call('ZADD', fresh and HEARTBEATS or ABSENT, worker.heartbeat, worker.id)
  redis.call('ZREM', fresh and ABSENT or HEARTBEATS, worker.id)
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

-- Gives the worker its place in one kind's index, or takes it out.
local function place(worker, kind, score, prefix)
  local former = worker.scores[kind]
  local moved = prefix ~= worker.prefix
  if former ~= UNRANKED and (moved or score == UNRANKED) then
    redis.call('ZREM', INDEX[kind], worker.prefix .. worker.id)
  end
  if score ~= UNRANKED and (moved or score ~= former) then
    redis.call('ZADD', INDEX[kind], score, prefix .. worker.id)
  end
  worker.scores[kind] = score
end

-- Brings the indexes and the pool's figures in line with the worker and stores its record.
local function save_worker(pool, worker)
  count_worker(pool, worker)
  local eligible = worker.open == 1 and has_room(pool, worker)
  local prefix = ''
  if eligible then
    if worker.eligible == 0 then
      pool.strategy.enter(pool, worker)
    end
    prefix = pool.strategy.prefix(worker)
  end
  for kind = 1, pool.strategy.kinds(pool) do
    local score = eligible and pool.strategy.rank(pool, worker, kind)
    place(worker, kind, score or UNRANKED, prefix)
  end
  worker.eligible, worker.prefix = eligible and 1 or 0, prefix
  write_worker(worker)
end

-- Deletes every trace of a worker that has no leases.
local function forget_worker(pool, worker)
  worker.state = REMOVED
  save_worker(pool, worker)
  redis.call('ZREM', HEARTBEATS, worker.id)
  redis.call('ZREM', ABSENT, worker.id)
  redis.call('ZREM', EJECTED, worker.id)
  redis.call('HDEL', WORKERS, worker.id)
  redis.call('HDEL', REPORTS, worker.id)
  redis.call('HDEL', FORMER, worker.id)
end

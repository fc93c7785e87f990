-- A worker's record, and what it says about the worker.

local Worker = {}

-- previous: its heartbeat before the last. sessions: as it told with the last. bound: leases that came
-- by their affinity, whatever its limit. origin: where clients reach it themselves. owner: who registered
-- it, by the name of a token; empty where nobody was asked.
local WORKER = '>IIdddIddBBddBBBddddddIBc0Bc0Bc0Bc0Bc0Bc0'

Worker.AVAILABLE = 0
Worker.DRAINING = 1 -- finishes its sessions and stays
Worker.RECYCLING = 2 -- finishes its sessions and restarts
Worker.REMOVED = 3 -- finishes its sessions and is forgotten

-- The heartbeat of one that never sent any: older than the longest heartbeat_ttl_ms, whatever the
-- pool's clock shows.
Worker.NEVER = -2 * 86400000

-- It did not say how many sessions it has.
Worker.UNTOLD = 1 / 0

-- Not in a kind's index: no rank is as high.
Worker.UNRANKED = 1 / 0

function Worker.unranked()
  return { Worker.UNRANKED, Worker.UNRANKED, Worker.UNRANKED }
end

function Worker.new(id)
  return {
    id = id, active = 0, lifetime = 0, seq = 0, heartbeat = 0, birth = 0, max_concurrent = 0,
    weight = 1, limit_at = 0, state = Worker.AVAILABLE, ejections = 0, ejected_at = 0,
    ejected_until = 0, open = 0, at_limit = 0, eligible = 0, clock = 0, scores = Worker.unranked(),
    previous = 0, sessions = Worker.UNTOLD, bound = 0, prefix = '', incarnation = '', address = '',
    inputs = '', origin = '', owner = '',
  }
end

-- Its fields in Keys.live: the record, what was learned about it, what the strategy in the shadow keeps of it.
Worker.RECORD = 'worker:'
Worker.REPORT = 'report:'
Worker.SHADOW = 'shadow:'

local function unpack_worker(id, text)
  local worker = Worker.new(id) -- whole from the beginning, as in Pool
  local scores = worker.scores
  worker.active, worker.lifetime, worker.seq, worker.heartbeat, worker.birth,
    worker.max_concurrent, worker.weight, worker.limit_at, worker.state, worker.ejections,
    worker.ejected_at, worker.ejected_until, worker.open, worker.at_limit, worker.eligible,
    worker.clock, scores[1], scores[2], scores[3], worker.previous, worker.sessions,
    worker.bound, worker.prefix, worker.incarnation, worker.address, worker.inputs, worker.origin,
    worker.owner = struct.unpack(WORKER, text)
  return worker
end

function Worker.read(id)
  local text = redis.call('HGET', Keys.live, Worker.RECORD .. id)
  return text and unpack_worker(id, text) or nil
end

local function new_report()
  return { requests = 0, errors = 0, bytes_read = 0, bytes_written = 0, timed = 0, timed_us = 0 }
end

-- The same, with what was learned about it. Whoever adds to that says so: worker.learned.
function Worker.read_with_report(id)
  local texts = redis.call('HMGET', Keys.live, Worker.RECORD .. id, Worker.REPORT .. id)
  local worker = texts[1] and unpack_worker(id, texts[1]) or nil
  if worker then
    worker.report = texts[2] and cmsgpack.unpack(texts[2]) or new_report()
  end
  return worker
end

-- How many there are: each is among the fresh or among the absent.
function Worker.count()
  return redis.call('ZCARD', Keys.heartbeats) + redis.call('ZCARD', Keys.absent)
end

function Worker.forget(id)
  redis.call('HDEL', Keys.live, Worker.RECORD .. id, Worker.REPORT .. id, Worker.SHADOW .. id)
end

function Worker.pack(worker)
  local scores = worker.scores
  return struct.pack(WORKER,
    worker.active, worker.lifetime, worker.seq, worker.heartbeat, worker.birth,
    worker.max_concurrent, worker.weight, worker.limit_at, worker.state, worker.ejections,
    worker.ejected_at, worker.ejected_until, worker.open, worker.at_limit, worker.eligible,
    worker.clock, scores[1], scores[2], scores[3], worker.previous, worker.sessions,
    worker.bound, #worker.prefix, worker.prefix,
    #worker.incarnation, worker.incarnation, #worker.address, worker.address,
    #worker.inputs, worker.inputs, #worker.origin, worker.origin, #worker.owner, worker.owner)
end

-- Whether whoever this is may speak for it. A token's holder may not for those of another's.
function Worker.is_of(worker, owner)
  return owner == '' or worker.owner == '' or worker.owner == owner
end

function Worker.is_fresh(pool, worker)
  return pool.now - worker.heartbeat <= pool.policy.heartbeat_ttl_ms
end

-- Could serve if it had room.
function Worker.is_open(pool, worker)
  local max_lifetime = pool.policy.max_lifetime
  return worker.state == Worker.AVAILABLE and worker.ejected_until == 0
    and Worker.is_fresh(pool, worker) and (max_lifetime == 0 or worker.lifetime < max_lifetime)
end

-- The worker may lower the pool's limit for itself, never raise it. Nothing is known of what a former
-- life asked for.
function Worker.limit(pool, worker)
  local limit = pool.policy.max_concurrent
  if worker.max_concurrent and worker.max_concurrent > 0 then
    limit = math.min(limit, worker.max_concurrent)
  end
  return limit
end

function Worker.has_room(pool, worker)
  return worker.active < Worker.limit(pool, worker)
end

-- The worker has had all the sessions it may have. It gets nothing new until it restarts, even if
-- a lifetime is given back meanwhile: it may have been told already.
function Worker.reach_limit(pool, worker)
  worker.state = Worker.RECYCLING
  worker.limit_at = pool.now
  pool.recycles = pool.recycles + 1
end

function Worker.at_its_limit(pool, worker)
  local max_lifetime = pool.policy.max_lifetime
  return max_lifetime > 0 and worker.lifetime >= max_lifetime
end

-- How far from their limit lifetime_first keeps all workers but one.
function Worker.margin(pool, fresh)
  return math.max(1, math.floor(pool.policy.max_lifetime / math.max(1, fresh)))
end

return Worker

-- A worker's record, and what it says about the worker.

local Worker = {}

-- What every lease may change comes first. Behind it is what seldom changes: it is packed when it does, and
-- worker.rest has the text of it between; whoever changes it says so: worker.rest = false.
-- previous: its heartbeat before the last. sessions: as it told with the last. bound: leases that came
-- by their affinity, whatever its limit. origin: where clients reach it themselves. owner: who registered
-- it, by the name of a token; empty where nobody was asked.
local WORKER = '>IIdBddddBc0Bc0'
local REST = '>dBBddBBIddIdddBc0Bc0Bc0Bc0'

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

-- Its fields in Keys.live: the record, what was learned about it, what the strategy in the shadow keeps of it.
Worker.RECORD = 'worker:'
Worker.REPORT = 'report:'
Worker.SHADOW = 'shadow:'

function Worker.unranked()
  return { Worker.UNRANKED, Worker.UNRANKED, Worker.UNRANKED }
end

function Worker.new(id)
  return {
    id = id, active = 0, lifetime = 0, seq = 0, heartbeat = 0, birth = 0, max_concurrent = 0,
    weight = 1, limit_at = 0, state = Worker.AVAILABLE, ejections = 0, ejected_at = 0,
    ejected_until = 0, open = 0, at_limit = 0, eligible = 0, clock = 0, scores = Worker.unranked(),
    previous = 0, sessions = Worker.UNTOLD, bound = 0, prefix = '', incarnation = '', address = '',
    inputs = '', origin = '', owner = '', rest = false,
    -- What belongs to one call; whole from the beginning, as in Pool.
    field = Worker.RECORD .. id, report = false, learned = false, unsaved = false, face = false,
    face_text = false, conduct = false, load = false, kept_as = false, kept_by = 0,
  }
end

-- Tables to unpack into: to lay one out costs a good part of a read. So many are in use; as soon as all records are
-- forgotten, none is.
local tables, used, losses = {}, 0, 0

local function table_for(id)
  if losses ~= Memory.losses then
    losses, used = Memory.losses, 0
  end
  used = used + 1
  local worker = tables[used]
  if worker then
    worker.id, worker.field = id, Worker.RECORD .. id
    return worker
  end
  worker = Worker.new(id)
  if used <= Memory.RECORDS_MAX then
    tables[used] = worker
  end
  return worker
end

local function unpack_worker(id, text)
  local worker = table_for(id)
  local scores = worker.scores
  local rest_at
  worker.active, worker.lifetime, worker.seq, worker.eligible, worker.clock, scores[1], scores[2], scores[3],
    worker.prefix, worker.inputs, rest_at = struct.unpack(WORKER, text)
  worker.limit_at, worker.state, worker.ejections, worker.ejected_at, worker.ejected_until, worker.open,
    worker.at_limit, worker.bound, worker.heartbeat, worker.birth, worker.max_concurrent, worker.weight,
    worker.previous, worker.sessions, worker.incarnation, worker.address, worker.origin,
    worker.owner = struct.unpack(REST, text, rest_at)
  worker.rest = text:sub(rest_at)
  return worker
end

-- What a report begins with: requests, errors, bytes_read, bytes_written, timed, timed_us.
local TOTALS = '>dddddd'
local TOTALS_BYTES = 48

-- Behind the totals is what few workers have, packed as it comes: estimates, load, load_birth. Whoever changes
-- one of them says so: report.rest = nil.
local function unpack_report(text)
  local report = { requests = 0, errors = 0, bytes_read = 0, bytes_written = 0, timed = 0, timed_us = 0,
    rest = '', kept_as = false, kept_by = 0 }
  if text then
    report.requests, report.errors, report.bytes_read, report.bytes_written, report.timed,
      report.timed_us = struct.unpack(TOTALS, text)
    report.rest = text:sub(TOTALS_BYTES + 1)
  end
  if report.rest ~= '' then
    local rest = cmsgpack.unpack(report.rest)
    report.estimates, report.load, report.load_birth = rest.estimates, rest.load, rest.load_birth
  end
  return report
end

function Worker.pack_report(report)
  report.rest = report.rest or cmsgpack.pack({ estimates = report.estimates, load = report.load,
    load_birth = report.load_birth })
  return struct.pack(TOTALS, report.requests, report.errors, report.bytes_read, report.bytes_written,
    report.timed, report.timed_us) .. report.rest
end

local function take_report(worker, text)
  worker.report = text and Memory.take(Keys.live, Worker.REPORT .. worker.id, text) or unpack_report(text)
end

local function fetch(pool, id, field, with_report)
  local text, report, face
  if pool.shadow then
    text, report, face = unpack(redis.call('HMGET', Keys.live, field, Worker.REPORT .. id, Worker.SHADOW .. id))
  elseif with_report then
    text, report = unpack(redis.call('HMGET', Keys.live, field, Worker.REPORT .. id))
  else
    text = redis.call('HGET', Keys.live, field)
  end
  if not text then
    return nil
  end
  local worker = Memory.take(Keys.live, field, text)
  if not worker then
    worker = unpack_worker(id, text)
    Memory.keep(Keys.live, field, false, worker)
  end
  worker.load, worker.unsaved, worker.learned, worker.report = false, false, false, false
  if worker.conduct and worker.conduct.changed then
    worker.conduct.text = false -- a call that failed has changed it
  end
  if pool.shadow then
    worker.face, worker.face_text = false, face
  end
  if with_report then
    take_report(worker, report)
  end
  return worker
end

function Worker.read(pool, id)
  local field = Worker.RECORD .. id
  return Memory.held(Keys.live, field) or fetch(pool, id, field, false)
end

-- The same, with what was learned about it. Whoever adds to that says so: worker.learned.
function Worker.read_with_report(pool, id)
  local field = Worker.RECORD .. id
  local worker = Memory.held(Keys.live, field)
  if not worker then
    return fetch(pool, id, field, true)
  elseif not worker.report then
    take_report(worker, redis.call('HGET', Keys.live, Worker.REPORT .. id))
  end
  return worker
end

-- The record has changed. It is written when the pool is saved, once, however often it changes until then.
function Worker.note_change(pool, worker)
  if not worker.unsaved then
    worker.unsaved = true
    pool.unsaved_count = pool.unsaved_count + 1
    pool.unsaved[pool.unsaved_count] = worker
  end
end

-- How many there are: each is among the fresh or among the absent.
function Worker.count()
  return redis.call('ZCARD', Keys.heartbeats) + redis.call('ZCARD', Keys.absent)
end

function Worker.forget(id)
  redis.call('HDEL', Keys.live, Worker.RECORD .. id, Worker.REPORT .. id, Worker.SHADOW .. id)
end

local function pack_rest(worker)
  return struct.pack(REST, worker.limit_at, worker.state, worker.ejections, worker.ejected_at,
    worker.ejected_until, worker.open, worker.at_limit, worker.bound, worker.heartbeat, worker.birth,
    worker.max_concurrent, worker.weight, worker.previous, worker.sessions, #worker.incarnation,
    worker.incarnation, #worker.address, worker.address, #worker.origin, worker.origin, #worker.owner, worker.owner)
end

function Worker.pack(worker)
  local scores = worker.scores
  worker.rest = worker.rest or pack_rest(worker)
  return struct.pack(WORKER, worker.active, worker.lifetime, worker.seq, worker.eligible, worker.clock, scores[1],
    scores[2], scores[3], #worker.prefix, worker.prefix, #worker.inputs, worker.inputs) .. worker.rest
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
  worker.state, worker.limit_at, worker.rest = Worker.RECYCLING, pool.now, false
  pool.recycles, pool.rest = pool.recycles + 1, false
end

function Worker.at_its_limit(pool, worker)
  local max_lifetime = pool.policy.max_lifetime
  return max_lifetime > 0 and worker.lifetime >= max_lifetime
end

-- How far from their limit lifetime_first keeps all workers but one.
function Worker.margin(pool)
  return math.max(1, math.floor(pool.policy.max_lifetime / math.max(1, pool.fresh)))
end

return Worker

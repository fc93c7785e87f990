-- A worker's place: in the indexes, among the fresh or the absent, and in the pool's figures. All are
-- written together with its record, by save_worker.

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

-- A worker's place: in the indexes, among the fresh or the absent, and in the pool's figures. All are
-- written together with its record, by Index.save.

local Index = {}

local UNRANKED = Worker.UNRANKED

-- Where its last heartbeat belongs: who is not fresh is absent.
function Index.note_heartbeat(pool, worker)
  local fresh = worker.state ~= Worker.REMOVED and Worker.is_fresh(pool, worker)
  if fresh then
    Pool.sweep_by(pool, worker.heartbeat + pool.policy.heartbeat_ttl_ms)
  end
  local added = redis.call('ZADD', fresh and Keys.heartbeats or Keys.absent, worker.heartbeat, worker.id)
  local removed = redis.call('ZREM', fresh and Keys.absent or Keys.heartbeats, worker.id)
  pool.fresh, pool.rest = pool.fresh + (fresh and added or -removed), false
end

-- Brings the pool's figures in line with the worker.
local function count_worker(pool, worker)
  local open = Worker.is_open(pool, worker) and 1 or 0
  local at_limit = worker.state == Worker.RECYCLING and Worker.is_fresh(pool, worker) and 1 or 0
  if open == worker.open and at_limit == worker.at_limit then
    return
  end
  pool.open = pool.open + open - worker.open
  pool.at_limit = pool.at_limit + at_limit - worker.at_limit
  if at_limit > worker.at_limit and pool.at_limit > 1 then
    pool.overlaps = pool.overlaps + 1
  end
  worker.open, worker.at_limit = open, at_limit
  worker.rest, pool.rest = false, false
end

-- Gives the worker its place in one kind's index, or takes it out. What is no number has no place: an
-- error here would leave half of a change behind.
local function place(worker, kind, score, prefix)
  if score ~= score or score == -UNRANKED then
    score = UNRANKED
  end
  local former = worker.scores[kind]
  local moved = prefix ~= worker.prefix
  if former ~= UNRANKED and (moved or score == UNRANKED) then
    redis.call('ZREM', Keys.index[kind], worker.prefix .. worker.id)
  end
  if score ~= UNRANKED and (moved or score ~= former) then
    redis.call('ZADD', Keys.index[kind], score, prefix .. worker.id)
  end
  worker.scores[kind] = score
end

-- Brings the indexes in line with the worker.
function Index.rank(pool, worker)
  local strategy = pool.strategy
  if strategy.settle then
    strategy.settle(pool, worker)
  end
  local eligible = worker.open == 1 and Worker.has_room(pool, worker)
  local prefix = ''
  if eligible then
    if worker.eligible == 0 then
      strategy.enter(pool, worker)
    end
    prefix = strategy.prefix_bytes > 0 and strategy.prefix(worker) or ''
  end
  for kind = 1, strategy.kinds(pool) do
    local score = eligible and strategy.rank(pool, worker, kind)
    place(worker, kind, score or UNRANKED, prefix)
  end
  worker.eligible, worker.prefix = eligible and 1 or 0, prefix
end

-- Brings the indexes and the pool's figures in line with the worker.
local function arrange(pool, worker)
  count_worker(pool, worker)
  Index.rank(pool, worker)
  if pool.shadow then
    Shadow.within(pool, worker, Index.rank)
  end
end

-- The same, and its record is written when the pool is saved.
function Index.save(pool, worker)
  arrange(pool, worker)
  Worker.note_change(pool, worker)
  if pool.unsaved_count >= Pool.UNSAVED_MAX then
    Pool.flush(pool)
  end
end

-- Deletes every trace of a worker that has no leases.
function Index.forget(pool, worker)
  worker.state = Worker.REMOVED
  arrange(pool, worker)
  pool.fresh, pool.rest = pool.fresh - redis.call('ZREM', Keys.heartbeats, worker.id), false
  redis.call('ZREM', Keys.absent, worker.id)
  redis.call('ZREM', Keys.ejected, worker.id)
  redis.call('ZREM', Keys.latencies, worker.id)
  redis.call('HDEL', Keys.former, worker.id)
  Worker.forget(worker.id)
end

return Index

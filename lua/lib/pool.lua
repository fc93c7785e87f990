-- The pool's head: its clock and the figures that concern all of its workers.

local HEAD = '>dddddddddddd'

-- Redis may stop for a while and its clock may jump: neither may make anything expire, so the
-- pool's own clock takes no single step longer than this.
local CLOCK_STEP_MS_MAX = 6000

-- Weight of the newest interval in the mean time between two admissions.
local INTERVAL_ALPHA = 0.1

local function unpack_head(text, wall)
  local head = {}
  if text then
    head.clock, head.wall, head.seq, head.births, head.connections, head.open, head.at_limit,
      head.recycles, head.overlaps, head.recycle_ms, head.admitted_at, head.interval_ms =
      struct.unpack(HEAD, text)
  else
    head.clock, head.wall, head.seq, head.births, head.connections, head.open, head.at_limit,
      head.recycles, head.overlaps, head.recycle_ms, head.admitted_at, head.interval_ms =
      0, wall, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  end
  return head
end

-- Opens the pool at this moment. Returns nil when it has no policy, that is, does not exist.
local function open_pool()
  local time = redis.call('TIME')
  local wall = time[1] * 1000 + time[2] / 1000
  local stored = redis.call('HMGET', POOL, 'head', 'policy')
  if not stored[2] then
    return nil
  end
  local pool = unpack_head(stored[1], wall)
  pool.clock = pool.clock + math.min(math.max(wall - pool.wall, 0), CLOCK_STEP_MS_MAX)
  pool.wall = wall
  pool.now = pool.clock
  pool.policy = unpack_policy(stored[2])
  pool.strategy = strategies[pool.policy.strategy]
  return pool
end

local function save_pool(pool)
  redis.call('HSET', POOL, 'head', struct.pack(HEAD,
    pool.clock, pool.wall, pool.seq, pool.births, pool.connections, pool.open, pool.at_limit,
    pool.recycles, pool.overlaps, pool.recycle_ms, pool.admitted_at, pool.interval_ms))
end

local function note_admission(pool)
  local interval = pool.now - pool.admitted_at
  if pool.admitted_at > 0 then
    pool.interval_ms = pool.interval_ms + INTERVAL_ALPHA * (interval - pool.interval_ms)
  end
  pool.admitted_at = pool.now
end

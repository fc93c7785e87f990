-- The pool's head: its clock and the figures that concern all of its workers.

local Pool = {}

local HEAD = '>dddddddddddddddddddddd'

-- Redis may stop for a while and its clock may jump: neither may make anything expire, so the
-- pool's own clock takes no single step longer than this. Two of them are less than Holder.GRACE_MS.
local CLOCK_STEP_MS_MAX = 700
-- No two calls happen at the same time, even when the clock stands still or goes back.
local CLOCK_STEP_MS_MIN = 0.001

-- Weight of the newest interval in the mean time between two admissions.
local INTERVAL_ALPHA = 0.1

-- Whole from the beginning: a table that grows field by field is laid out anew again and again.
local function new_head()
  return { clock = 0, wall = 0, seq = 0, births = 0, connections = 0, open = 0, at_limit = 0,
    recycles = 0, overlaps = 0, recycle_ms = 0, admitted_at = 0, interval_ms = 0, fired = 0, dice = 0,
    rebuild = 0, rebuild_at = 0, holders = 0, quarantined = 0, rate = { at = 0, used = 0 }, lost_at = 0,
    sweep_at = 0 }
end

local function unpack_head(text)
  local head = new_head()
  head.clock, head.wall, head.seq, head.births, head.connections, head.open, head.at_limit,
    head.recycles, head.overlaps, head.recycle_ms, head.admitted_at, head.interval_ms, head.fired,
    head.dice, head.rebuild, head.rebuild_at, head.holders, head.quarantined, head.rate.at,
    head.rate.used, head.lost_at, head.sweep_at = struct.unpack(HEAD, text)
  return head
end

local function pack_head(head)
  return struct.pack(HEAD,
    head.clock, head.wall, head.seq, head.births, head.connections, head.open, head.at_limit,
    head.recycles, head.overlaps, head.recycle_ms, head.admitted_at, head.interval_ms, head.fired,
    head.dice, head.rebuild, head.rebuild_at, head.holders, head.quarantined, head.rate.at,
    head.rate.used, head.lost_at, head.sweep_at)
end

local function wall_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + time[2] / 1000
end

-- A pool's first head. The dice must not be 0: see Dice.roll.
function Pool.found(dice)
  local head = new_head()
  head.wall, head.dice = wall_ms(), dice
  redis.call('HSET', Keys.live, 'head', pack_head(head))
end

-- The pool at this moment, for those who only read. Returns nil when it has no policy, that is, does
-- not exist.
function Pool.look()
  local stored = redis.call('HMGET', Keys.live, 'head', 'policy_mark', 'shared', 'store_id')
  if not stored[2] then
    return nil
  end
  local pool = unpack_head(stored[1])
  local wall = wall_ms()
  pool.clock = pool.clock + math.min(math.max(wall - pool.wall, CLOCK_STEP_MS_MIN), CLOCK_STEP_MS_MAX)
  pool.wall = wall
  pool.now = pool.clock
  pool.policy = Policy.read(stored[2])
  pool.strategy = Strategies[pool.policy.strategy]
  pool.levels_field = 'levels'
  pool.puts = {}
  pool.shared = stored[3]
  pool.store_id = stored[4]
  Shadow.open(pool)
  return pool
end

-- The same, for those who write. On another server than the last time, its data may be old or gone.
function Pool.open()
  local pool = Pool.look()
  if pool and pool.store_id ~= Keys.server then
    Rebuild.begin(pool)
    redis.call('HSET', Keys.live, 'store_id', Keys.server, 'head', pack_head(pool))
  end
  return pool
end

-- A call takes no more arguments than Lua's stack has room for; whoever changes all workers writes in pieces.
local PUTS_MAX = 512

-- Writes a field beside the head, in the same call, when the pool is saved. Whoever reads the field before
-- that reads what was there.
function Pool.put(pool, field, text)
  local puts = pool.puts
  puts[#puts + 1] = field
  puts[#puts + 1] = text
  if #puts >= PUTS_MAX then
    Pool.flush(pool)
  end
end

-- Writes what was put, for whoever reads it again in the same call.
function Pool.flush(pool)
  if #pool.puts > 0 then
    redis.call('HSET', Keys.live, unpack(pool.puts))
    pool.puts = {}
  end
end

function Pool.save(pool)
  local puts = pool.puts
  puts[#puts + 1] = 'head'
  puts[#puts + 1] = pack_head(pool)
  local shared = pool.strategy.shared(pool)
  if shared then
    puts[#puts + 1] = 'shared'
    puts[#puts + 1] = shared
  end
  Shadow.store(pool, puts)
  Pool.flush(pool)
end

-- Something is due at this time: nobody decides after it without looking (lib/sweep.lua).
function Pool.sweep_by(pool, at)
  pool.sweep_at = math.min(pool.sweep_at, at)
end

function Pool.note_admission(pool)
  local interval = pool.now - pool.admitted_at
  if pool.admitted_at > 0 then
    pool.interval_ms = pool.interval_ms + INTERVAL_ALPHA * (interval - pool.interval_ms)
  end
  pool.admitted_at = pool.now
end

return Pool

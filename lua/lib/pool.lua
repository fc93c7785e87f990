-- The pool's head: its clock and the figures that concern all of its workers.

local Pool = {}

-- What leases change comes first. Behind it is what seldom changes: it is packed when it does, and pool.rest has
-- the text of it between; whoever changes it says so: pool.rest = false.
local HEAD = '>dddddddddd'
local REST = '>ddddddddddddd'

-- Redis may stop for a while and its clock may jump: neither may make anything expire, so the
-- pool's own clock takes no single step longer than this. Two of them are less than Holder.GRACE_MS.
local CLOCK_STEP_MS_MAX = 700
-- No two calls happen at the same time, even when the clock stands still or goes back.
local CLOCK_STEP_MS_MIN = 0.001

-- Weight of the newest interval in the mean time between two admissions.
local INTERVAL_ALPHA = 0.1

-- Whole from the beginning, with what belongs to one call only: a table that grows field by field is laid out
-- anew again and again, and so is one whose fields are nil for a while.
local function new_head()
  return { now = 0, policy = false, policy_mark = false, is_plain = false, strategy = false, store_id = false,
    shared = false, shadow = false, levels_field = 'levels', levels = false, ledger = false, median_ms = false,
    unsaved = {}, unsaved_count = 0, changed = false,
    clock = 0, wall = 0, seq = 0, connections = 0, admitted_at = 0, interval_ms = 0, fired = 0, dice = 0,
    rate = { at = 0, used = 0, over = false },
    births = 0, open = 0, at_limit = 0, recycles = 0, overlaps = 0, recycle_ms = 0, rebuild = 0, rebuild_at = 0,
    holders = 0, quarantined = 0, lost_at = 0, sweep_at = 0, fresh = 0, rest = false,
    kept_as = false, kept_by = 0 }
end

local function unpack_head(text)
  local head = new_head()
  local rest_at
  head.clock, head.wall, head.seq, head.connections, head.admitted_at, head.interval_ms, head.fired, head.dice,
    head.rate.at, head.rate.used, rest_at = struct.unpack(HEAD, text)
  head.births, head.open, head.at_limit, head.recycles, head.overlaps, head.recycle_ms, head.rebuild,
    head.rebuild_at, head.holders, head.quarantined, head.lost_at, head.sweep_at,
    head.fresh = struct.unpack(REST, text, rest_at)
  head.rest = text:sub(rest_at)
  return head
end

local function pack_rest(head)
  return struct.pack(REST, head.births, head.open, head.at_limit, head.recycles, head.overlaps, head.recycle_ms,
    head.rebuild, head.rebuild_at, head.holders, head.quarantined, head.lost_at, head.sweep_at, head.fresh)
end

local function pack_head(head)
  local rate = head.rate
  head.rest = head.rest or pack_rest(head)
  return struct.pack(HEAD, head.clock, head.wall, head.seq, head.connections, head.admitted_at, head.interval_ms,
    head.fired, head.dice, rate.at, rate.used) .. head.rest
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

-- By pool: the mark of its policy, if no other strategy is in the shadow; and whether its own keeps something for
-- all workers.
local unwatched, shares = {}, {}

-- head, policy_mark, store_id; and what few pools have: shared, shadow_head, shadow_shared.
local function read()
  local mark = unwatched[Keys.live]
  if mark then
    local stored
    if shares[Keys.live] then
      stored = redis.call('HMGET', Keys.live, 'head', 'policy_mark', 'store_id', 'shared')
    else
      stored = redis.call('HMGET', Keys.live, 'head', 'policy_mark', 'store_id')
    end
    if stored[2] == mark then
      return stored
    end
  end
  return redis.call('HMGET', Keys.live, 'head', 'policy_mark', 'store_id', 'shared', 'shadow_head',
    'shadow_shared')
end

local function take_policy(pool, mark)
  local policy = Policy.read(mark)
  local strategy = Strategies[policy.strategy]
  pool.policy_mark, pool.policy, pool.strategy = mark, policy, strategy
  pool.is_plain = not (strategy.shared or strategy.level_of or policy.shadow_strategy)
  unwatched[Keys.live] = not policy.shadow_strategy and mark
  shares[Keys.live] = strategy.shared and true
  pool.shared, pool.levels, pool.ledger, pool.median_ms, pool.shadow = false, false, false, false, false
end

-- The pool at this moment, for those who only read. Returns nil when it has no policy, that is, does
-- not exist.
function Pool.look()
  Memory.begin()
  local stored = read()
  local mark = stored[2]
  if not mark then
    return nil
  end
  local pool = Memory.take(Keys.live, 'head', stored[1]) or unpack_head(stored[1])
  local wall = wall_ms()
  local step = wall - pool.wall
  if step < CLOCK_STEP_MS_MIN then
    step = CLOCK_STEP_MS_MIN
  elseif step > CLOCK_STEP_MS_MAX then
    step = CLOCK_STEP_MS_MAX
  end
  local now = pool.clock + step
  pool.clock, pool.wall, pool.now = now, wall, now
  if pool.policy_mark ~= mark then
    take_policy(pool, mark)
  end
  pool.store_id, pool.unsaved_count, pool.changed = stored[3], 0, false
  if not pool.is_plain then
    pool.shared, pool.levels, pool.ledger, pool.median_ms = stored[4], false, false, false
    pool.shadow = pool.policy.shadow_strategy and Shadow.open(pool, stored[5], stored[6]) or false
  end
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

-- What the next command writes, names and values; those behind the last are of another time. A table that is
-- used again has not to grow.
local puts, last = {}, 0

local function put(field, text)
  puts[last + 1], puts[last + 2] = field, text
  last = last + 2
end

local function put_worker(pool, worker)
  local text = Worker.pack(worker)
  put(worker.field, text)
  Memory.keep(Keys.live, worker.field, text, worker)
  if worker.learned then
    local field, report = Worker.REPORT .. worker.id, Worker.pack_report(worker.report)
    put(field, report)
    Memory.keep(Keys.live, field, report, worker.report)
  end
  if pool.shadow then
    put(Worker.SHADOW .. worker.id, Shadow.pack_face(worker))
  end
  worker.unsaved, worker.learned = false, false
end

local function write(pool)
  for i = 1, pool.unsaved_count do
    put_worker(pool, pool.unsaved[i])
  end
  pool.unsaved_count = 0
  if last > 0 then
    redis.call('HSET', Keys.live, unpack(puts, 1, last))
  end
end

-- A call takes no more arguments than Lua's stack has room for: whoever changes all workers writes them in
-- pieces of so many. Each has up to six.
Pool.UNSAVED_MAX = 64

-- Writes the workers that have changed.
function Pool.flush(pool)
  last = 0
  write(pool)
end

-- The last that a call does with it: what changed afterwards would not be in the bytes that it is known by.
function Pool.save(pool)
  local head, strategy = pack_head(pool), pool.strategy
  local shared = strategy.shared and strategy.shared(pool)
  puts[1], puts[2], last = 'head', head, 2
  if shared then
    put('shared', shared)
  end
  if pool.shadow then
    Shadow.store(pool, put)
  end
  write(pool)
  Memory.keep(Keys.live, 'head', head, pool)
end

-- Something is due at this time: nobody decides after it without looking (lib/sweep.lua).
function Pool.sweep_by(pool, at)
  if at < pool.sweep_at then
    pool.sweep_at, pool.rest = at, false
  end
end

function Pool.note_admission(pool)
  local interval = pool.now - pool.admitted_at
  if pool.admitted_at > 0 then
    pool.interval_ms = pool.interval_ms + INTERVAL_ALPHA * (interval - pool.interval_ms)
  end
  pool.admitted_at = pool.now
end

return Pool

-- How a worker has conducted itself: its karma, its failures in a row, and its outcomes in a window
-- of the current and the last half period. What `nodeads` and `noerrors` know of a worker.

local Conduct = {}

-- karma, member, period, times, time_us; row; half; then successes, warnings, hard errors and pings
-- of this half and of the last; level, second: where it was ranked.
local CONDUCT = '>dBdddBdIIIBIIIBdd'

-- More failures in a row than this say nothing new.
local ROW_MAX = 64

-- Ranks above any clock: by level, and below those for level 0 with a second. Powers of two keep order.
local LEVELS, SECONDS = 2 ^ 900, 2 ^ 800

local function new_conduct()
  return { karma = 1, member = 0, period = 0, times = 0, time_us = 0, row = 0, half = 0, good = 0,
    warnings = 0, hard = 0, pings = 0, last_good = 0, last_warnings = 0, last_hard = 0,
    last_pings = 0, level = 0, second = 0, text = '', changed = true }
end

local function unpack_conduct(text, conduct)
  conduct.karma, conduct.member, conduct.period, conduct.times, conduct.time_us, conduct.row,
    conduct.half, conduct.good, conduct.warnings, conduct.hard, conduct.pings, conduct.last_good,
    conduct.last_warnings, conduct.last_hard, conduct.last_pings, conduct.level, conduct.second =
    struct.unpack(CONDUCT, text)
  conduct.text, conduct.changed = text, false
  return conduct
end

local function pack_conduct(conduct)
  return struct.pack(CONDUCT, conduct.karma, conduct.member, conduct.period, conduct.times,
    conduct.time_us, conduct.row, conduct.half, conduct.good, conduct.warnings, conduct.hard,
    conduct.pings, conduct.last_good, conduct.last_warnings, conduct.last_hard, conduct.last_pings,
    conduct.level, conduct.second)
end

-- Whoever changes it says so: conduct.changed. It stays unpacked, by the rule of lib/memory.lua: while the worker has
-- the very text that it was packed to.
function Conduct.of(worker)
  local conduct, text = worker.conduct, worker.inputs
  if conduct and conduct.text == text then
    return conduct
  end
  if text == '' then
    conduct = new_conduct()
  else
    conduct = unpack_conduct(text, conduct or new_conduct())
  end
  worker.conduct = conduct
  return conduct
end

-- The window moves on by halves.
local function age(pool, conduct)
  local half = math.floor(pool.now / (pool.policy.karma.period_ms / 2))
  if half == conduct.half then
    return
  end
  if half == conduct.half + 1 then
    conduct.last_good, conduct.last_warnings = conduct.good, conduct.warnings
    conduct.last_hard, conduct.last_pings = conduct.hard, conduct.pings
  else
    conduct.last_good, conduct.last_warnings, conduct.last_hard, conduct.last_pings = 0, 0, 0, 0
  end
  conduct.good, conduct.warnings, conduct.hard, conduct.pings = 0, 0, 0, 0
  conduct.half, conduct.changed = half, true
end

-- A heartbeat is a ping: it shows life, but not that the next request will be served.
local function seen(pool, worker)
  local conduct = Conduct.of(worker)
  age(pool, conduct)
  conduct.pings, conduct.changed = 1, true
  conduct.row = math.min(conduct.row, pool.policy.nodeads.dead_after)
end

local function judge(pool, worker, outcome)
  if outcome == 'unknown' then
    return
  end
  local conduct = Conduct.of(worker)
  age(pool, conduct)
  conduct.changed = true
  if outcome == 'success' then
    conduct.good, conduct.row = conduct.good + 1, 0
    return
  elseif outcome == 'warning' then
    conduct.warnings = conduct.warnings + 1
  else
    conduct.hard = conduct.hard + 1
  end
  conduct.row = math.min(conduct.row + 1, ROW_MAX)
end

-- Periods of another length, or shares by another rule, cannot be gone on with.
local function memory(policy)
  return 'conduct ' .. policy.karma.rule .. ' ' .. policy.karma.period_ms
end

local function is_usual(conduct)
  return conduct.level == 0 and conduct.second == 0
end

-- A strategy of which only the level is its own: level(pool, conduct) -> level, second. The lowest
-- level is chosen from, then the lowest second; inside these, chance by karma and weight. The usual
-- workers, level 0, are ranked by their clocks alone: one write in the index for each choice. The
-- others come after them by level, and have second and clock in their prefix; usual_prefix is as long.
function Conduct.strategy(own)
  own.memory = memory
  own.seen, own.judge = seen, judge
  own.draws, own.enter, own.taken = true, Dice.wind, Dice.ring
  own.shared = Karma.pack_ledger

  own.pace = own.pace or function(worker)
    return worker.weight * Conduct.of(worker).karma
  end

  own.level_of = function(worker)
    local conduct = Conduct.of(worker)
    if not is_usual(conduct) then
      return string.format('%.17g %.17g', conduct.level, conduct.second)
    end
  end

  own.rank = function(_, worker)
    local conduct = Conduct.of(worker)
    if is_usual(conduct) then
      return worker.clock
    end
    return conduct.level > 0 and LEVELS * conduct.level or SECONDS
  end

  local among_unusual, among_usual = own.prefix, own.usual_prefix
  own.prefix = function(worker)
    return is_usual(Conduct.of(worker)) and among_usual or among_unusual(worker)
  end

  own.learn = function(pool, worker, _, about)
    Karma.learn(pool, worker, Conduct.of(worker), about.us)
  end

  own.settle = function(pool, worker)
    local conduct = Conduct.of(worker)
    age(pool, conduct)
    Karma.settle(pool, worker, conduct)
    local level, second = own.level(pool, conduct)
    if level ~= conduct.level or second ~= conduct.second then
      conduct.level, conduct.second, conduct.changed = level, second, true
      if worker.eligible == 1 then
        Dice.wind(pool, worker) -- among others, its old clock is no fair draw
      end
    end
    if conduct.changed then
      local text = pack_conduct(conduct)
      worker.inputs, conduct.text, conduct.changed = text, text, false
    end
  end

  return Rank.strategy(own)
end

return Conduct

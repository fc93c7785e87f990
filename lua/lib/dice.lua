-- Chance, weighted, without looking at every worker. Each worker has an alarm clock that rings after
-- an exponential time whose rate is its pace; whoever rings first is chosen and winds its clock again.
-- That is a draw by pace, independent of all draws before it.

local Dice = {}

-- Park and Miller's generator. Its products are exact in a double, so a model draws the same numbers.
local FACTOR, MODULUS = 48271, 2147483647

-- A number above 0 and below 1.
function Dice.roll(pool)
  pool.dice = (pool.dice * FACTOR) % MODULUS
  return pool.dice / MODULUS
end

-- Workers of another level are drawn apart, and have a time of their own; more levels than this are not
-- kept in mind, the youngest first.
local LEVELS_MAX = 64

local function levels_of(pool)
  if not pool.levels then
    local text = redis.call('HGET', Keys.pool, pool.levels_field)
    pool.levels = text and cmsgpack.unpack(text) or {}
  end
  return pool.levels
end

-- When a clock last rang among those that the worker is drawn with.
local function last_ring(pool, worker)
  local level_of = pool.strategy.level_of
  local level = level_of and level_of(worker)
  if level then
    return levels_of(pool)[level] or 0
  end
  return pool.fired
end

local function forget_youngest(levels)
  local count, youngest = 0, nil
  for level, time in pairs(levels) do
    count = count + 1
    if not youngest or time < levels[youngest] then
      youngest = level
    end
  end
  if count > LEVELS_MAX then
    levels[youngest] = nil
  end
end

local function note_ring(pool, worker, level)
  local levels = levels_of(pool)
  levels[level] = worker.clock
  forget_youngest(levels)
  redis.call('HSET', Keys.pool, pool.levels_field, cmsgpack.pack(levels))
end

local function wind_from(pool, worker, time)
  worker.clock = time - math.log(Dice.roll(pool)) / pool.strategy.pace(worker)
end

-- Starts from the time of the last ring: with an old clock it would ring too soon.
function Dice.wind(pool, worker)
  wind_from(pool, worker, last_ring(pool, worker))
end

-- The time left changes with the pace, and stays a fair draw.
function Dice.repace(pool, worker, former)
  local from = last_ring(pool, worker)
  worker.clock = from + (worker.clock - from) * former / pool.strategy.pace(worker)
end

function Dice.reweigh(pool, worker, weight)
  local former = pool.strategy.pace(worker)
  worker.weight, worker.rest = weight, false
  Dice.repace(pool, worker, former)
end

function Dice.ring(pool, worker)
  local level_of = pool.strategy.level_of
  local level = level_of and level_of(worker)
  if level then
    note_ring(pool, worker, level)
    Dice.wind(pool, worker)
  else
    pool.fired = worker.clock
    wind_from(pool, worker, worker.clock)
  end
end

-- All clocks are to be wound anew.
function Dice.forget(pool)
  redis.call('HDEL', Keys.pool, pool.levels_field)
  pool.levels = false
end

return Dice

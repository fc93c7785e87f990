-- Chance, weighted, without looking at every worker. Each worker has an alarm clock that rings after
-- an exponential time of rate `weight`; whoever rings first is chosen and winds its clock again. That
-- is a draw by weight, independent of all draws before it.

-- Park and Miller's generator. Its products are exact in a double, so a model draws the same numbers.
local DICE_FACTOR, DICE_MODULUS = 48271, 2147483647

-- A number above 0 and below 1.
local function roll(pool)
  pool.dice = (pool.dice * DICE_FACTOR) % DICE_MODULUS
  return pool.dice / DICE_MODULUS
end

local function wind_clock(pool, worker, from)
  worker.clock = from - math.log(roll(pool)) / worker.weight
end

-- The time left changes with the weight, and stays a fair draw.
local function reweigh(pool, worker, weight)
  worker.clock = pool.fired + (worker.clock - pool.fired) * worker.weight / weight
  worker.weight = weight
end

-- Who enters starts from the time of the last ring: with its old clock it would ring too soon.
local function enter_by_clock(pool, worker)
  wind_clock(pool, worker, pool.fired)
end

local function taken_by_clock(pool, worker)
  pool.fired = worker.clock
  wind_clock(pool, worker, worker.clock)
end

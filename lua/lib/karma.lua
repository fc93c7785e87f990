-- Karma: a worker's share by how fast it was. Once per period each share is scaled by the inverse of
-- the mean time that the worker took in that period, and all are brought back to their sum.
--
-- Here a karma is a share times the number of workers, so that 1 is an equal share and workers may
-- come and go without touching the others. A step over all workers would hold Redis up; instead the
-- sums are frozen when the period ends, and each worker steps at its own first event after that. One
-- that shows no sign of life until the next sums are frozen keeps its share.

local Karma = {}

-- What the pool keeps: the period; of the workers with a fresh heartbeat how many there are and the
-- sum of their karma; of those timed in this period the count, the sum of karma, the sum of
-- karma over time; and, frozen, the period that ended: its sum of karma over time, and the
-- karma that its timed workers divide among them.
local LEDGER = '>ddddddddd'

-- A longer time is a mistake, and would be lost in the sums.
local DAY_US = 86400000000

local function period_now(pool)
  return math.floor(pool.now / pool.policy.karma.period_ms)
end

-- The pool's ledger, at the present period. Whoever does not need it leaves it packed: most events do.
local function open_ledger(pool)
  local ledger = pool.ledger
  if not ledger then
    ledger = {}
    if pool.shared then
      ledger.period, ledger.members, ledger.karma, ledger.timed, ledger.timed_karma, ledger.speed,
        ledger.frozen_period, ledger.frozen_speed, ledger.frozen_karma =
        struct.unpack(LEDGER, pool.shared)
    else
      ledger.period, ledger.members, ledger.karma, ledger.timed, ledger.timed_karma, ledger.speed,
        ledger.frozen_period, ledger.frozen_speed, ledger.frozen_karma = 0, 0, 0, 0, 0, 0, -1, 0, 0
    end
    pool.ledger = ledger
  end
  local period = period_now(pool)
  if period ~= ledger.period then
    if ledger.timed > 0 then
      ledger.frozen_period, ledger.frozen_speed = ledger.period, ledger.speed
      -- Who was not timed keeps its share; the others divide the rest of the whole.
      ledger.frozen_karma = ledger.members - (ledger.karma - ledger.timed_karma)
    end
    ledger.period, ledger.timed, ledger.timed_karma, ledger.speed = period, 0, 0, 0
    ledger.changed = true
  end
  return ledger
end

-- The ledger to store, or nil when it is as it was.
function Karma.pack_ledger(pool)
  local ledger = pool.ledger
  return ledger and ledger.changed and struct.pack(LEDGER, ledger.period, ledger.members, ledger.karma, ledger.timed,
    ledger.timed_karma, ledger.speed, ledger.frozen_period, ledger.frozen_speed, ledger.frozen_karma)
end

-- What a worker's new karma is proportional to.
local function speed_of(pool, conduct)
  local karma = pool.policy.karma.rule == 'memoryless' and 1 or conduct.karma
  return karma * conduct.times / conduct.time_us
end

local function step(pool, ledger, worker, conduct)
  conduct.changed = true
  if conduct.period == ledger.frozen_period and ledger.frozen_speed > 0 then
    local share = ledger.frozen_karma * speed_of(pool, conduct) / ledger.frozen_speed
    local karma = math.max(share, pool.policy.karma.floor)
    local pace = pool.strategy.pace(worker)
    ledger.karma, ledger.changed = ledger.karma + karma - conduct.karma, true
    conduct.karma = karma
    Dice.repace(pool, worker, pace)
  end
  conduct.times, conduct.time_us = 0, 0
end

local function join(ledger, conduct)
  conduct.member, conduct.karma, conduct.times, conduct.time_us = 1, 1, 0, 0
  conduct.changed = true
  ledger.members, ledger.karma, ledger.changed = ledger.members + 1, ledger.karma + 1, true
end

local function leave(pool, ledger, conduct)
  if conduct.times > 0 and conduct.period == ledger.period then
    ledger.timed, ledger.timed_karma = ledger.timed - 1, ledger.timed_karma - conduct.karma
    ledger.speed = ledger.speed - speed_of(pool, conduct)
  end
  conduct.member, conduct.times, conduct.time_us, conduct.changed = 0, 0, 0, true
  ledger.members, ledger.karma = ledger.members - 1, ledger.karma - conduct.karma
  ledger.changed = true
end

-- Any event of the worker.
function Karma.settle(pool, worker, conduct)
  if conduct.times > 0 and conduct.period ~= period_now(pool) then
    step(pool, open_ledger(pool), worker, conduct)
  end
  local fresh = worker.state ~= Worker.REMOVED and Worker.is_fresh(pool, worker)
  if fresh and conduct.member == 0 then
    join(open_ledger(pool), conduct)
  elseif not fresh and conduct.member == 1 then
    leave(pool, open_ledger(pool), conduct)
  end
end

-- The worker served a lease in this time.
function Karma.learn(pool, worker, conduct, us)
  Karma.settle(pool, worker, conduct)
  if conduct.member == 0 then
    return
  end
  local ledger = open_ledger(pool)
  if conduct.times == 0 then
    conduct.period = ledger.period
    ledger.timed, ledger.timed_karma = ledger.timed + 1, ledger.timed_karma + conduct.karma
  else
    ledger.speed = ledger.speed - speed_of(pool, conduct)
  end
  conduct.times = conduct.times + 1
  conduct.time_us = conduct.time_us + math.min(math.max(us, 1), DAY_US)
  conduct.changed = true
  ledger.speed, ledger.changed = ledger.speed + speed_of(pool, conduct), true
end

return Karma

-- What a strategy is: a table of the functions below. They are small on purpose: limits, leases and
-- ejection are the same for all. A strategy that leaves one out gets the plain one.
--   kinds(pool) -> count              how many kinds of requests it tells apart, 1 to 3
--   kind_of(pool, request) -> kind    the request's kind, by its operation and bytes
--   rank(pool, worker, kind) -> score its place in that kind's index, lowest first; nil: none
--   prefix(worker) -> text            ties inside one score; prefix_bytes long
--   choose(pool, kind) -> member      the index member to take, or nil
-- What it hears of, always before the worker is ranked anew:
--   enter(pool, worker)               it may be chosen again
--   taken(pool, worker, kind)         it was chosen; to one that draws: it was drawn
--   left(pool, worker, lease)         a lease of it ended
--   seen(pool, worker, load)          it sent a heartbeat, perhaps with a load report
--   judge(pool, worker, outcome)      a lease of it came out like this
--   learn(pool, worker, lease, about) a lease of it was answered well, in about.us; about.report: what
--                                     else was learned about the worker, to be added to
--   born(pool, worker)                it restarted
--   settle(pool, worker)              any of the above: now what ages is brought up to date
-- What it keeps:
--   memory(policy) -> text            what worker.inputs means: strategies of the same share it
--   recall(pool, worker, report)      the pool turns to this strategy: inputs from what is known;
--                                     nil when it starts from nothing
--   shared(pool) -> text              what it keeps for the whole pool, or nil; pool.shared gives it back
--   pace(worker) -> rate              how fast the worker's clock runs (lib/dice.lua)
--   level_of(worker) -> text          whom it is drawn with: nil for the usual, most preferred ones
--   draws                             it chooses by chance, and by nothing else that was chosen
--   describe(pool, worker, kind) -> table, gate   for people: what it ranks by, what keeps it out

local Rank = {}

local function worker_in(pool, member)
  local prefix_bytes = pool.strategy.prefix_bytes
  return prefix_bytes == 0 and member or member:sub(prefix_bytes + 1)
end

-- Whether the worker may be chosen for this kind of request.
function Rank.is_ranked(worker, kind)
  return worker.scores[kind] ~= Worker.UNRANKED
end

-- The worker to take, or nil, and whether it was the strategy that chose. The one that the request
-- stands on keeps it, if it may be chosen at all.
function Rank.choose(pool, kind, own)
  local worker = own ~= '' and Worker.read(pool, own)
  if worker and Rank.is_ranked(worker, kind) then
    return worker, false
  end
  local member = pool.strategy.choose(pool, kind)
  return member and Worker.read(pool, worker_in(pool, member)), true
end

-- How many of the workers are looked at for one that serves, though nobody has room.
local LOOKS_MAX = 64

-- Any worker that is in service and only has no room; nil when none was found. Who has room is kept out by
-- the strategy, and not for us to let in.
function Rank.any_full(pool)
  local fresh = pool.fresh
  local first = math.floor(Dice.roll(pool) * fresh)
  for i = 0, math.min(fresh, LOOKS_MAX) - 1 do
    local at = (first + i) % fresh
    local worker = Worker.read(pool, redis.call('ZRANGE', Keys.heartbeats, at, at)[1])
    if Worker.is_open(pool, worker) and not Worker.has_room(pool, worker) then
      return worker
    end
  end
end

-- The order of doubles ≥ 0 as the order of bytes.
function Rank.be(number)
  return struct.pack('>d', number)
end

function Rank.first(_, kind)
  return redis.call('ZRANGE', Keys.index[kind], '0', '0')[1]
end

function Rank.no_prefix()
  return ''
end

local function by_last_choice(worker)
  return Rank.be(worker.seq)
end

local function one()
  return 1
end

local function nothing()
end

local function by_weight(worker)
  return worker.weight
end

local function no_memory()
  return 'none'
end

local function no_inputs()
  return {}
end

-- What every decision would call and few strategies have is false where there is none. While a library is
-- loaded, Redis gives it nothing to walk a table with.
function Rank.strategy(own)
  return {
    kinds = own.kinds or one,
    kind_of = own.kind_of or one,
    rank = own.rank,
    prefix = own.prefix or by_last_choice,
    prefix_bytes = own.prefix_bytes or 8,
    choose = own.choose or Rank.first,
    enter = own.enter or nothing,
    taken = own.taken or nothing,
    left = own.left or nothing,
    seen = own.seen or nothing,
    judge = own.judge or nothing,
    learn = own.learn or nothing,
    born = own.born or nothing,
    settle = own.settle or false,
    memory = own.memory or no_memory,
    recall = own.recall,
    shared = own.shared or false,
    pace = own.pace or by_weight,
    level_of = own.level_of or false,
    draws = own.draws or false,
    describe = own.describe or no_inputs,
  }
end

return Rank

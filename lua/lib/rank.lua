-- Strategies by name, each a function that makes a table, so that a script makes only its own:
--   kinds(pool) -> count              how many kinds of requests it tells apart, 1 to 3
--   kind_of(pool, request) -> kind    the request's kind, by its operation and bytes
--   rank(pool, worker, kind) -> score its place in that kind's index, lowest first; nil: none
--   prefix(worker) -> text            ties inside one score; prefix_bytes long
--   choose(pool, kind) -> member      the index member to take, or nil
--   enter(pool, worker)               it may be chosen again: before it is ranked
--   taken(pool, worker)               it was chosen: before it is ranked anew
--   learn(pool, worker, report, sample) a lease of it was answered well
--   parameters(policy) -> text        its own settings, packed; pool.policy.parameters gives them back
-- They are small on purpose: limits, leases and ejection are the same for all.
local strategies = {}

local function worker_in(pool, member)
  return member:sub(pool.strategy.prefix_bytes + 1)
end

-- The order of doubles ≥ 0 as the order of bytes.
local function be(number)
  return struct.pack('>d', number)
end

local function first_of_index(_, kind)
  return redis.call('ZRANGE', INDEX[kind], 0, 0)[1]
end

local function by_last_choice(worker)
  return be(worker.seq)
end

-- A strategy that says nothing else tells no kinds apart, breaks ties by the least recent choice,
-- takes the first, and learns nothing.
local function strategy(own)
  local complete = {
    kinds = function() return 1 end,
    kind_of = function() return 1 end,
    prefix = by_last_choice,
    prefix_bytes = 8,
    choose = first_of_index,
    enter = function() end,
    taken = function() end,
    learn = function() end,
    parameters = function() return '' end,
  }
  for name, value in pairs(own) do
    complete[name] = value
  end
  return complete
end

local function no_prefix()
  return ''
end

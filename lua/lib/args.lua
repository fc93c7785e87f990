-- What a verb is given, checked before it writes anything: an error half-way would leave half of a change
-- behind. A shape has a letter for each argument:
--   l  the number of a lease, of a beat or of a presence, 0 .. 2^53
--   i  a whole number below 2^32
--   n  a number, 0 .. 2^64                      N  the same, or empty
--   w  a weight, 0.001 .. 1000
--   t  text that a record can keep, at most 255 bytes
--   o  an outcome
--   c  a cursor
--   j  whatever it is: it harms nothing, or is JSON, which the caller checks

local Args = {}

local TEXT_BYTES_MAX = 255
local NUMBER_MAX, LEASE_MAX, COUNT_MAX, INFINITY = 2 ^ 64, 2 ^ 53, 2 ^ 32 - 1, 1 / 0

local OUTCOMES = { success = true, warning = true, connect_failed = true, reset_before_headers = true,
  reset = true, timeout = true, unknown = true }

-- Texts become numbers by arithmetic, which reads them once: tonumber reads them twice. It ends the call at what
-- is no number. What is called a number and is none, nan, is neither above nor below one.
local function is_number(text)
  local number = text + 0
  return number >= 0 and number <= NUMBER_MAX
end

local function is_lease(text)
  local number = text + 0
  return number >= 0 and number <= LEASE_MAX and number % 1 == 0
end

local function is_count(text)
  local number = text + 0
  return number >= 0 and number <= COUNT_MAX and number % 1 == 0
end

local IS = {
  l = is_lease,
  i = is_count,
  n = is_number,
  N = function(text)
    if text == '' then
      return true
    end
    local number = text + 0
    return number >= 0 and number <= NUMBER_MAX
  end,
  w = function(text)
    local weight = tonumber(text)
    return weight and weight >= 0.001 and weight <= 1000
  end,
  o = function(text) return OUTCOMES[text] end,
  c = function(text) return text:find('^%d+$') end,
}

-- By shape: how many arguments it has, where texts are, and which others are checked how. Spelled out once,
-- because this is done in every decision.
local spelled = {}

local function spell(shape)
  local checks = { count = #shape, texts = {}, at = {}, is = {} }
  for i = 1, #shape do
    local letter = shape:sub(i, i)
    if letter == 't' then
      checks.texts[#checks.texts + 1] = i
    elseif IS[letter] then
      checks.at[#checks.at + 1], checks.is[#checks.is + 1] = i, IS[letter]
    end
  end
  spelled[shape] = checks
  return checks
end

local function refuse(place)
  error('argument ' .. place .. ' is not what it must be')
end

-- Checks one group of arguments, those behind the first `from`.
local function check_group(args, from, checks)
  local texts, at, is = checks.texts, checks.at, checks.is
  for i = 1, #texts do
    if #args[from + texts[i]] > TEXT_BYTES_MAX then
      refuse(from + texts[i])
    end
  end
  for i = 1, #at do
    if not is[i](args[from + at[i]]) then
      refuse(from + at[i])
    end
  end
end

-- Single ones, for those who need them as numbers or check few.
function Args.texts(args, first, last)
  for place = first, last do
    if #args[place] > TEXT_BYTES_MAX then
      refuse(place)
    end
  end
end

function Args.lease(args, place)
  local number = args[place] + 0
  if not (number >= 0 and number <= LEASE_MAX and number % 1 == 0) then
    refuse(place)
  end
  return number
end

function Args.number(args, place)
  local number = args[place] + 0
  if not (number >= 0 and number <= NUMBER_MAX) then
    refuse(place)
  end
  return number
end

local OPERATIONS = { query = true, execute = true, begin = true }

function Args.operation(args, place)
  local operation = args[place]
  if not OPERATIONS[operation] then
    refuse(place)
  end
  return operation
end

local FIGURES = { 'runningHttpSession', 'maxHttpSessions', 'runningSql', 'openConns', 'maxOpenConns', 'idleConns',
  'waitConnCount', 'runningTx', 'maxTransactionConns', 'p95LatencyMs', 'errorRate1m', 'timeouts1m', 'uptimeSec' }

-- What a worker reports of its load, as JSON; nil for an empty text. All of its figures are numbers.
function Args.load(args, place)
  if args[place] == '' then
    return nil
  end
  local load = cjson.decode(args[place])
  if type(load) ~= 'table' or type(load.status) ~= 'string' then
    refuse(place)
  end
  for i = 1, #FIGURES do
    local figure = load[FIGURES[i]]
    if type(figure) ~= 'number' or not (figure >= 0 and figure < INFINITY) then
      refuse(place)
    end
  end
  return load
end

-- A number that was checked; nil for one that was not told.
function Args.told(text)
  return text ~= '' and text + 0 or nil
end

-- The first arguments have the shape `first`; those that follow come in groups of the shape `each`.
function Args.check(args, first, each)
  local checks, group = spelled[first] or spell(first), each and (spelled[each] or spell(each))
  local count, all = checks.count, #args
  local rest = all - count
  if rest < 0 or (rest > 0 and not group) or (group and rest % group.count ~= 0) then
    error('there are ' .. all .. ' arguments')
  end
  if count > 0 then
    check_group(args, 0, checks)
  end
  for from = count, all - 1, group and group.count or 1 do
    check_group(args, from, group)
  end
end

return Args

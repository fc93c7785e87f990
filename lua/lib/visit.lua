-- What is kept by the keys that a request carries, its client's and its affinity's: fields of one hash, so that
-- a request reads all of them by one command, and writes what has changed by one.

local Visit = {}

-- Leases that a client has; how often it came; what an affinity key is bound to.
Visit.CLIENT = 'client:'
Visit.RATE = 'rate:'
Visit.AFFINITY = 'affinity:'

-- How many there are of each, and from when on one of them may be over: perhaps nothing is over then, but
-- nothing is before. Nobody looks for what is not due.
Visit.CLIENTS, Visit.RATES, Visit.BINDINGS = 'clients', 'rates', 'bindings'
Visit.RATES_DUE, Visit.BINDINGS_DUE = 'rates_due', 'bindings_due'

-- How many that are over are forgotten for each new one.
local FORGET_MAX = 8

-- Later than any clock shows.
local NEVER = 2 ^ 100

-- Reads these fields.
function Visit.open(fields)
  local found, texts = redis.call('HMGET', Keys.keys, unpack(fields)), {}
  for i = 1, #fields do
    texts[fields[i]] = found[i]
  end
  return { texts = texts, puts = {} }
end

function Visit.number(visit, field)
  return tonumber(visit.texts[field] or 0)
end

-- It is written by Visit.save.
function Visit.put(visit, field, text)
  local puts = visit.puts
  visit.texts[field] = text
  puts[#puts + 1] = field
  puts[#puts + 1] = text
end

function Visit.put_number(visit, field, number)
  Visit.put(visit, field, string.format('%.17g', number))
end

-- Something of this kind is over from this time on.
function Visit.due_by(visit, due, at)
  if not visit.texts[due] or at < Visit.number(visit, due) then
    Visit.put_number(visit, due, at)
  end
end

-- Whether something of this kind may be over.
function Visit.is_due(visit, due, now)
  return visit.texts[due] and now >= Visit.number(visit, due)
end

-- The names in this sorted set whose time has come, not too many; and when the next one's comes.
function Visit.over(key, now)
  local first, names = redis.call('ZRANGE', key, '0', FORGET_MAX, 'WITHSCORES'), {}
  for i = 1, #first, 2 do
    if tonumber(first[i + 1]) > now or #names == FORGET_MAX then
      return names, tonumber(first[i + 1])
    end
    names[#names + 1] = first[i]
  end
  return names, NEVER
end

-- A call takes no more arguments than Lua's stack has room for.
local FIELDS_MAX = 1000

function Visit.forget(prefix, names)
  for first = 1, #names, FIELDS_MAX do
    local fields = {}
    for i = first, math.min(#names, first + FIELDS_MAX - 1) do
      fields[#fields + 1] = prefix .. names[i]
    end
    redis.call('HDEL', Keys.keys, unpack(fields))
  end
end

function Visit.save(visit)
  if #visit.puts > 0 then
    redis.call('HSET', Keys.keys, unpack(visit.puts))
    visit.puts = {}
  end
end

return Visit

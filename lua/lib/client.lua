-- Whom a request is counted for, known by the hash of its key. How many clients are told apart is
-- bounded: those beyond share one place, as if they were one client.

local Client = {}

local OTHERS = 'others'
local COUNT_OF_OTHERS, RATE_OF_OTHERS = Visit.CLIENT .. OTHERS, Visit.RATE .. OTHERS

-- Adds the fields that a decision about this client needs.
function Client.add_fields(pool, key, fields)
  local policy, last = pool.policy.client, #fields
  if key == '' then
    return
  end
  if policy.max_concurrent > 0 then
    fields[last + 1], fields[last + 2], fields[last + 3] = Visit.CLIENTS, Visit.CLIENT .. key, COUNT_OF_OTHERS
    last = last + 3
  end
  if policy.limit then
    fields[last + 1], fields[last + 2] = Visit.RATES, Visit.RATES_DUE
    fields[last + 3], fields[last + 4] = Visit.RATE .. key, RATE_OF_OTHERS
  end
end

-- The name that this client's leases are counted under, and how many there are. Who is among the others
-- is not known: while there are any, whoever is new may be one of them.
local function count_of(pool, visit, key)
  local own, others = visit.texts[Visit.CLIENT .. key], visit.texts[COUNT_OF_OTHERS]
  if not own and (others or Visit.number(visit, Visit.CLIENTS) >= pool.policy.client.keys_max) then
    return OTHERS, tonumber(others or 0)
  end
  return key, tonumber(own or 0)
end

-- Rates that are over say no more than nothing does. One that came again since it was listed is listed anew.
local function forget_some(pool, visit, limit)
  local now = Rate.time(pool, limit)
  if not Visit.is_due(visit, Visit.RATES_DUE, now) then
    return
  end
  local names, due = Visit.over(Keys.rate_expiry, now)
  local gone = {}
  for _, name in ipairs(names) do
    local text = redis.call('HGET', Keys.keys, Visit.RATE .. name)
    local over_at = text and Rate.over_at(limit, Rate.unpack(text)) or now
    if over_at > now then
      redis.call('ZADD', Keys.rate_expiry, over_at, name)
      due = math.min(due, over_at)
    else
      gone[#gone + 1] = name
      visit.texts[Visit.RATE .. name] = false
    end
  end
  if #gone > 0 then
    redis.call('ZREM', Keys.rate_expiry, unpack(gone))
    Visit.forget(Visit.RATE, gone)
    Visit.put_number(visit, Visit.RATES, Visit.number(visit, Visit.RATES) - #gone)
  end
  Visit.put_number(visit, Visit.RATES_DUE, due)
  Visit.save(visit) -- also when the request is denied
end

-- The name that this client's rate is kept under, and its state.
local function rate_of(pool, visit, limit, key)
  local text = visit.texts[Visit.RATE .. key]
  if not text then
    forget_some(pool, visit, limit)
    if Visit.number(visit, Visit.RATES) >= pool.policy.client.keys_max then
      key, text = OTHERS, visit.texts[RATE_OF_OTHERS]
    end
  end
  return key, text and Rate.unpack(text) or Rate.unknown(pool, limit), not text
end

-- The client with what its limits need to know; nil when the request names none.
function Client.open(pool, visit, key)
  if key == '' then
    return nil
  end
  local client, policy = { counted_as = '' }, pool.policy.client
  if policy.max_concurrent > 0 then
    client.counted_as, client.count = count_of(pool, visit, key)
  end
  if policy.limit then
    client.rated_as, client.rate, client.rate_is_new = rate_of(pool, visit, policy.limit, key)
  end
  return client
end

function Client.take_rate(pool, visit, client)
  local limit = pool.policy.client.limit
  Rate.take(pool, limit, client.rate)
  Visit.put(visit, Visit.RATE .. client.rated_as, Rate.pack(client.rate))
  if client.rate_is_new then
    local over_at = Rate.over_at(limit, client.rate)
    redis.call('ZADD', Keys.rate_expiry, over_at, client.rated_as)
    Visit.put_number(visit, Visit.RATES, Visit.number(visit, Visit.RATES) + 1)
    Visit.due_by(visit, Visit.RATES_DUE, over_at)
  end
end

-- A lease more.
function Client.enter(visit, client)
  if client.counted_as ~= '' then
    Visit.put(visit, Visit.CLIENT .. client.counted_as, string.format('%d', client.count + 1))
    if client.count == 0 then
      Visit.put_number(visit, Visit.CLIENTS, Visit.number(visit, Visit.CLIENTS) + 1)
    end
  end
end

-- A lease that the store had lost is counted again. Returns the name that it is counted under.
function Client.return_as(pool, key)
  if key == '' or pool.policy.client.max_concurrent == 0 then
    return ''
  end
  local visit = Visit.open({ Visit.CLIENTS, Visit.CLIENT .. key, COUNT_OF_OTHERS })
  local name, count = count_of(pool, visit, key)
  Client.enter(visit, { counted_as = name, count = count })
  Visit.save(visit)
  return name
end

function Client.leave(name)
  if name ~= '' and redis.call('HINCRBY', Keys.keys, Visit.CLIENT .. name, '-1') <= 0 then
    redis.call('HDEL', Keys.keys, Visit.CLIENT .. name)
    redis.call('HINCRBY', Keys.keys, Visit.CLIENTS, '-1')
  end
end

-- Rates by another measure mean nothing.
function Client.forget_rates()
  Visit.forget(Visit.RATE, redis.call('ZRANGE', Keys.rate_expiry, '0', '-1'))
  redis.call('HDEL', Keys.keys, Visit.RATES, Visit.RATES_DUE)
  redis.call('UNLINK', Keys.rate_expiry)
end

return Client

-- Whom a request is counted for, known by the hash of its key. How many clients are told apart is
-- bounded: those beyond share one place, as if they were one client.

local Client = {}

local OTHERS = 'others'

-- Of those whose rate is no longer of interest, so many are forgotten for each that is new.
local FORGET_MAX = 8

-- The name that this client's leases are counted under, and how many there are. Who is among the others
-- is not known: while there are any, whoever is new may be one of them.
local function count_of(pool, key)
  local counts = redis.call('HMGET', Keys.clients, key, OTHERS)
  if not counts[1]
    and (counts[2] or redis.call('HLEN', Keys.clients) >= pool.policy.client.keys_max) then
    return OTHERS, tonumber(counts[2] or 0)
  end
  return key, tonumber(counts[1] or 0)
end

local function forget_some(pool, limit)
  local over = redis.call('ZRANGE', Keys.client_rates, '-inf', Rate.over(pool, limit), 'BYSCORE',
    'LIMIT', 0, FORGET_MAX)
  if #over > 0 then
    redis.call('ZREM', Keys.client_rates, unpack(over))
  end
end

-- The name that this client's rate is kept under, and its state.
local function rate_of(pool, limit, key)
  local number = redis.call('ZSCORE', Keys.client_rates, key)
  if not number then
    forget_some(pool, limit)
    if redis.call('ZCARD', Keys.client_rates) >= pool.policy.client.keys_max then
      key, number = OTHERS, redis.call('ZSCORE', Keys.client_rates, OTHERS)
    end
  end
  return key, number and Rate.unpack(limit, tonumber(number)) or Rate.unknown(pool, limit)
end

-- The client with what its limits need to know; nil when the request names none.
function Client.open(pool, key)
  if key == '' then
    return nil
  end
  local client, policy = { counted_as = '' }, pool.policy.client
  if policy.max_concurrent > 0 then
    client.counted_as, client.count = count_of(pool, key)
  end
  if policy.limit then
    client.rated_as, client.rate = rate_of(pool, policy.limit, key)
  end
  return client
end

function Client.take_rate(pool, client)
  local limit = pool.policy.client.limit
  Rate.take(pool, limit, client.rate)
  redis.call('ZADD', Keys.client_rates, Rate.pack(limit, client.rate), client.rated_as)
end

-- A lease more. The name is that of Client.open.
function Client.enter(name)
  if name ~= '' then
    redis.call('HINCRBY', Keys.clients, name, 1)
  end
end

-- A lease that the store had lost is counted again. Returns the name that it is counted under.
function Client.return_as(pool, key)
  if key == '' or pool.policy.client.max_concurrent == 0 then
    return ''
  end
  local name = count_of(pool, key)
  Client.enter(name)
  return name
end

function Client.leave(name)
  if name ~= '' and redis.call('HINCRBY', Keys.clients, name, -1) <= 0 then
    redis.call('HDEL', Keys.clients, name)
  end
end

return Client

-- The limits that are not a worker's own.

local Limits = {}

-- Whether the limit is only watched.
function Limits.is_watched(pool, limit)
  return pool.policy.shadowed.all or pool.policy.shadowed[limit]
end

function Limits.count_shadowed(limit)
  redis.call('HINCRBY', Keys.pool, 'shadowed:' .. limit, 1)
end

-- The limit says no. Returns whether that is only counted.
local function is_shadowed(pool, limit)
  if not Limits.is_watched(pool, limit) then
    return false
  end
  Limits.count_shadowed(limit)
  return true
end

-- Why the request is denied, and how long until it need not be; nil when it may come in. What it says
-- of a rate is kept for Limits.take.
function Limits.refusal(pool, client)
  local requests, clients = pool.policy.requests, pool.policy.client
  if requests.limit then
    local wait = Rate.wait_ms(pool, requests.limit, pool.rate)
    pool.rate.over = wait > 0
    if wait > 0 and not is_shadowed(pool, 'requests.rate') then
      return 'rate_limited', wait
    end
  end
  if client and client.rate then
    local wait = Rate.wait_ms(pool, clients.limit, client.rate)
    client.rate.over = wait > 0
    if wait > 0 and not is_shadowed(pool, 'client.rate') then
      return 'rate_limited', wait
    end
  end
  if client and client.count and client.count >= clients.max_concurrent
    and not is_shadowed(pool, 'client.max_concurrent') then
    return 'client_limit'
  end
  local most = pool.policy.global_conn
  if most > 0 and pool.connections >= most and not is_shadowed(pool, 'global_conn') then
    return 'pool_full'
  end
end

-- The request comes in. A rate that is only watched is not taken from by what it would have denied.
function Limits.take(pool, visit, client)
  if pool.policy.requests.limit and not pool.rate.over then
    Rate.take(pool, pool.policy.requests.limit, pool.rate)
  end
  if client and client.rate and not client.rate.over then
    Client.take_rate(pool, visit, client)
  end
end

return Limits

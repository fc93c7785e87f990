#!lua
-- What a selector without an index does: it reads every worker for every decision. The highest
-- lifetime below the margin wins, then the lowest active.
local active = redis.call('HGETALL', KEYS[1])
local workers = #active / 2
local max_concurrent, max_lifetime = 2, 1000000
local margin = math.max(1, math.floor(max_lifetime / workers))
local best, best_lifetime, best_active
for i = 1, #active, 2 do
  local id, leases = active[i], tonumber(active[i + 1])
  local figures = redis.call('HMGET', KEYS[2] .. id, 'status', 'lifetime', 'heartbeat')
  local lifetime = tonumber(figures[2])
  if figures[1] == 'available' and leases < max_concurrent and lifetime < max_lifetime - margin
    and (not best or lifetime > best_lifetime
      or (lifetime == best_lifetime and leases < best_active)) then
    best, best_lifetime, best_active = id, lifetime, leases
  end
end
redis.call('HSET', KEYS[1], best, 1 - best_active)
return { 'chosen', best }

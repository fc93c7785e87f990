-- reap: lets the pool's clock go on and does what is due, whether or not anyone asks for a place.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV     none
-- Returns  done | again    again: more is due than one call should do
--          unknown_pool    the pool has no policy
-- Uses     keys rank dice estimate strategies policy pool worker index sweep
-- Keeps    I11 I14 I15: stale workers leave, tombstones and long absent workers are forgotten
-- Cost     bounded: at most 256 workers and 1,000 tombstones

local TOMBSTONES_MAX = 1000

local pool = open_pool()
if not pool then
  return { 'unknown_pool' }
end

local function forget_tombstones()
  local expired = redis.call('ZRANGE', TOMBSTONES, '-inf', pool.now, 'BYSCORE', 'LIMIT', 0, TOMBSTONES_MAX)
  if #expired > 0 then
    redis.call('ZREM', TOMBSTONES, unpack(expired))
  end
  return #expired < TOMBSTONES_MAX
end

local function forget_absent()
  local oldest = pool.now - pool.policy.forget_ms
  local gone = redis.call('ZRANGE', ABSENT, '-inf', oldest, 'BYSCORE', 'LIMIT', 0, SWEEP_MAX)
  for _, id in ipairs(gone) do
    local worker = read_worker(id)
    if worker.active > 0 then
      redis.call('ZADD', ABSENT, pool.now, id) -- its sessions go on: look again later
    else
      forget_worker(pool, worker)
    end
  end
  return #gone < SWEEP_MAX
end

local swept = sweep(pool)
local tombstones_done = forget_tombstones()
local absent_done = forget_absent()
save_pool(pool)
return { swept and tombstones_done and absent_done and 'done' or 'again' }

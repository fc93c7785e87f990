-- reap: lets the pool's clock go on and does what is due, whether or not anyone asks for a place.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV     none
-- Returns  done | again, rebuild, epochs    again: more is due than one call should do; the number of
--          the rebuild under way, or 0; holders to look at, at most 64
--          unknown_pool    the pool has no policy
-- Uses     Former Index Pool Rebuild Sweep Worker
-- Keeps    I11 I14 I15: stale workers leave, tombstones and long absent workers are forgotten
-- Cost     bounded: at most 256 workers and 1,000 tombstones

local HOLDERS_MAX = 64
local TOMBSTONES_MAX = 1000

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end

local function forget_tombstones()
  local expired = redis.call('ZRANGE', Keys.tombstones, '-inf', pool.now, 'BYSCORE', 'LIMIT', 0, TOMBSTONES_MAX)
  if #expired > 0 then
    redis.call('ZREM', Keys.tombstones, unpack(expired))
  end
  return #expired < TOMBSTONES_MAX
end

local function forget_absent()
  local oldest = pool.now - pool.policy.forget_ms
  local gone = redis.call('ZRANGE', Keys.absent, '-inf', oldest, 'BYSCORE', 'LIMIT', 0, Sweep.MAX)
  for _, id in ipairs(gone) do
    local worker = Worker.read(pool, id)
    if worker.active > 0 or Former.has_leases(id) then
      redis.call('ZADD', Keys.absent, pool.now, id) -- its sessions go on: look again later
    else
      Index.forget(pool, worker)
    end
  end
  return #gone < Sweep.MAX
end

local swept = Sweep.run(pool)
Pool.flush(pool) -- below, what was swept is read again
local tombstones_done = forget_tombstones()
local absent_done = forget_absent()
local rebuild = Rebuild.goes_on(pool) and pool.rebuild or 0
local due = redis.call('ZRANGE', Keys.holders, '-inf', pool.now, 'BYSCORE', 'LIMIT', 0, HOLDERS_MAX)
Pool.save(pool)
local word = swept and tombstones_done and absent_done and 'done' or 'again'
return { word, string.format('%.0f', rebuild), unpack(due) }

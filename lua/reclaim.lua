-- reclaim: looks at one holder that is due. Takes the leases of one that is gone, step by step; of one
-- that is present but silent, those that its workers do not serve.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV 1   cursor, '0' to begin
-- Returns  done
--          again, cursor    the holder has more leases than one call should look at
--          unknown_pool     the pool has no policy
-- Uses     Crew Holder Lease Page Pool Repair
-- Keeps    I2 I7 I8 I15: whoever beats in the meantime keeps the rest
-- Cost     at most 256 leases, and O(log N) in the pool's workers for each worker

local LEASES_MAX = 256
-- A lease that a worker does not count may be one whose release is on its way.
local SETTLE_MS = 1000

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local holder = Holder.open()
if not holder.known or (Holder.is_forgotten(pool, holder) and Holder.count(holder) == 0) then
  Holder.forget()
  Pool.save(pool)
  return { 'done' }
end

local quarantined = false
if holder.reclaimed_at == 0 then
  local fate = Holder.fate(pool, holder)
  if fate == 'quarantine' then
    Holder.quarantine(pool, holder)
    quarantined = true
  elseif fate then
    Holder.reclaim(pool, holder, fate)
  end
end

local crew, count = Crew.new(), 0

-- The worker has told that it does not serve so many, and this one is no news to it.
local function is_surplus(worker, lease)
  return worker and worker.surplus > 0 and lease.since < worker.previous
    and pool.now - worker.heartbeat >= SETTLE_MS
end

local cursor = '0'
if quarantined or (holder.reclaimed_at > 0 and Holder.count(holder) > 0) then
  cursor = Page.of_holder(Keys.holder, ARGV[1], function(number, text)
    local lease = Lease.unpack(text)
    local worker = Crew.of_lease(crew, lease)
    if count < LEASES_MAX and (not quarantined or is_surplus(worker, lease)) then
      holder.leases[number] = text
      Lease.give_back(pool, worker, lease, holder, number, true)
      count = count + 1
    end
  end)
end
Repair.count(quarantined and 'freed_by_sessions' or 'reclaimed_' .. (Holder.CAUSES[holder.cause] or ''), count)
Crew.save(pool, crew)
Holder.look_later(pool, holder)
Holder.save(holder)
Pool.save(pool)
if cursor ~= '0' or (holder.reclaimed_at > 0 and Holder.count(holder) > 0) then
  return { 'again', cursor }
end
return { 'done' }

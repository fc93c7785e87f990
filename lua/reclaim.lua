-- reclaim: looks at one holder that is due. Takes the leases of one that is gone, step by step; of one
-- that is present but silent, those that its workers do not serve.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV 1   cursor, '0' to begin
-- Returns  done
--          again, cursor    the holder has more leases than one call should look at
--          unknown_pool     the pool has no policy
-- Uses     Args Crew Holder Lease Page Pool Repair
-- Keeps    I2 I7 I8 I15: whoever beats in the meantime keeps the rest
-- Cost     at most 256 leases, and O(log N) in the pool's workers for each worker

Args.check(ARGV, 'c')

local LEASES_MAX = 256

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local holder = Holder.open({})
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

local crew, count = Crew.new(pool), 0

local function take(worker, lease, number)
  Lease.give_back(pool, worker, lease, holder, number, true)
  count = count + 1
end

-- Its session must have been there when the worker last said how many it has.
local function was_there(worker, lease, number)
  return worker and lease.since < worker.previous and Holder.beat_of(number) < holder.beat
    and not Holder.was_asking(number)
end

-- If the worker has three sessions in all, at most three of the silent holder's are there.
local function take_surplus(leases_of)
  for _, worker in ipairs(crew.list) do
    local leases = leases_of[worker.id] or {}
    for i = worker.sessions + 1, #leases do
      take(worker, leases[i].lease, leases[i].number)
    end
  end
end

local cursor, leases_of = '0', {}
if quarantined or (holder.reclaimed_at > 0 and Holder.count(holder) > 0) then
  cursor = Page.of_holder(Keys.holder, ARGV[1], function(number, text)
    local lease = Lease.unpack(text)
    local worker = Crew.of_lease(crew, lease)
    holder.leases[number] = text
    if not quarantined and count < LEASES_MAX then
      take(worker, lease, number)
    elseif quarantined and was_there(worker, lease, number) then
      local leases = leases_of[worker.id] or {}
      leases_of[worker.id] = leases
      leases[#leases + 1] = { lease = lease, number = number }
    end
  end)
  take_surplus(leases_of)
end
Repair.count(quarantined and 'freed_by_sessions' or 'reclaimed_' .. (Holder.CAUSES[holder.cause] or ''), count)
Crew.save(crew)
Holder.look_later(pool, holder)
Holder.save(holder)
Pool.save(pool)
if cursor ~= '0' or (holder.reclaimed_at > 0 and Holder.count(holder) > 0) then
  return { 'again', cursor }
end
return { 'done' }

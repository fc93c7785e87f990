-- renounce: lets go of leases that the store has and their holder does not list.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV 1   the beat that did not list them
-- ARGV     their numbers, at most 128
-- Returns  renounced, count
--          stale           that beat is not the holder's last, or the holder was reclaimed since
--          unknown_pool    the pool has no policy
-- Uses     Args Crew Holder Lease Pool Repair
-- Keeps    I2 I8: a beat speaks only for what was minted before it
-- Cost     O(log N) in the pool's workers for each worker

Args.check(ARGV, 'l', 'l')

local LEASES_MAX = 128
local FIRST = 2

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local numbers = {}
for i = FIRST, math.min(#ARGV, LEASES_MAX + 1) do
  numbers[#numbers + 1] = ARGV[i]
end
local holder = Holder.open(numbers)
if holder.beat ~= tonumber(ARGV[1]) or holder.reclaimed_at > 0 then
  return { 'stale' }
end

local crew, count = Crew.new(pool), 0
for _, number in ipairs(numbers) do
  local lease = Lease.of(holder, number)
  if lease and Holder.beat_of(number) < holder.beat then
    -- Whether it was ever used, nobody knows: its lifetime stays counted.
    Lease.give_back(pool, Crew.of_lease(crew, lease), lease, holder, number, true)
    count = count + 1
  end
end
Crew.save(crew)
Holder.save(holder)
Repair.count('renounced', count)
Pool.save(pool)
return { 'renounced', tostring(count) }

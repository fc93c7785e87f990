-- reassert: takes in leases that their holder lists and the store does not have.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV 1   the beat that listed them
-- ARGV     for each lease six: number, lifetime number, worker, incarnation, address, client (empty for
--          none); at most 128
-- Returns  reasserted, count
--          stale           that beat is not the holder's last, or the holder was reclaimed since
--          unknown_pool    the pool has no policy
-- Uses     Args Crew Holder Lease Pool Repair
-- Keeps    I2 I3 I5: an ended lease stays ended; lifetime is not counted again. workers_max is not asked: the
--          worker was let in before its record was lost, and without one its sessions would not count
-- Cost     O(log N) in the pool's workers for each worker; at most 2 calls for each lease more

Args.check(ARGV, 'l', 'litttt')

local FIELDS = 6
local LEASES_MAX = 128
local FIRST = 2

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local numbers = {}
for i = FIRST, math.min(#ARGV, LEASES_MAX * FIELDS + 1), FIELDS do
  numbers[#numbers + 1] = ARGV[i]
end
local holder = Holder.open(numbers)
if holder.beat ~= tonumber(ARGV[1]) or holder.reclaimed_at > 0 then
  return { 'stale' }
end

local crew, count, over = Crew.new(pool), 0, 0
local epoch = Holder.epoch()
for i, number in ipairs(numbers) do
  local first = FIRST + (i - 1) * FIELDS
  local spoken_for = Holder.beat_of(number) < holder.beat
  if spoken_for and not Lease.of(holder, number) and not Lease.is_buried(epoch .. '.' .. number) then
    local told = { lifetime = tonumber(ARGV[first + 1]), worker = ARGV[first + 2],
      incarnation = ARGV[first + 3], address = ARGV[first + 4], client = ARGV[first + 5] }
    over = over + (Lease.reassert(pool, crew, holder, number, told) and 1 or 0)
    count = count + 1
  end
end
Crew.save(crew)
Holder.save(holder)
Repair.count('reasserted', count)
Repair.count('overcommitted', over)
Pool.save(pool)
return { 'reasserted', tostring(count) }

-- observe: learns what a stream found out about its worker while its lease goes on.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV     for each lease three: number, outcome, handshake_us (empty when unknown); at most 64
-- Returns  observed, count of leases, count of ids that are not held
--          unknown_pool    the pool has no policy
-- Uses     Args Crew Ejection Holder Lease Pool Report
-- Keeps    I6 I11: only a lease's own holder can speak for it
-- Cost     O(log N) in the pool's workers for each worker; at most 7 calls each, 2 for each lease and 5 for all

Args.check(ARGV, '', 'loN')

local FIELDS = 3
local OBSERVATIONS_MAX = 64

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local crew, observed, unknown = Crew.new(pool), 0, 0
local last = math.min(#ARGV, OBSERVATIONS_MAX * FIELDS)
local holder = Holder.open_for_batch(ARGV, last, FIELDS)

for first = 1, last, FIELDS do
  local lease = Lease.of(holder, ARGV[first])
  local worker = lease and Crew.of_lease(crew, lease)
  if worker then
    local outcome, handshake_us = ARGV[first + 1], tonumber(ARGV[first + 2])
    Ejection.judge(pool, worker, lease, outcome)
    Report.take(pool, worker, lease, outcome, Report.time_of_handshake(pool, handshake_us))
    Lease.note_told(holder, ARGV[first], lease, outcome)
    observed = observed + 1
  else
    unknown = unknown + 1
  end
end

Crew.save_learned(crew)
Holder.save(holder)
Pool.save(pool)
return { 'observed', tostring(observed), tostring(unknown) }

-- release: gives leases of one holder back, and learns from how they went.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV     for each lease ten: number, lease id, 'used' or 'unused', outcome, and, each empty when
--          unknown: handshake_us (of a plain request), upgrade_us (of an upgrade), session_us,
--          bytes_read, bytes_written; at last the affinity key that ends with it, or empty; at most
--          64 leases
-- Returns  released, for each lease a digit: 1 it was given back, 0 it was not held, or waits for a beat
--          unknown_pool    the pool has no policy
-- Uses     Affinity Args Crew Ejection Holder Lease Pool Repair Report
-- Keeps    I2 I3 I4 I5: a second release changes nothing; an id released before its admit arrives
--          is remembered for one lease_ttl_ms, and so is every ended one
-- Cost     O(log N) in the pool's workers for each worker, which is read, ranked and written once; 8 calls for one
--          lease, and none for each further one but what its client (1, at its last 3), its affinity key (at most
--          4) and an ejection (2) take

Args.check(ARGV, '', 'ljjoNNNNNj')

local FIELDS = 10
local RELEASES_MAX = 64

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local crew, known, missing, ended = Crew.new(pool), {}, 0, {}
local last = math.min(#ARGV, RELEASES_MAX * FIELDS)
local holder = Holder.open_for_batch(ARGV, last, FIELDS)

for first = 1, last, FIELDS do
  local seq, lease_id, use, outcome, handshake_us, upgrade_us, session_us, bytes_read, bytes_written,
    unbind = unpack(ARGV, first, first + FIELDS - 1)
  local lease = Lease.of(holder, seq)
  -- Of a quarantined holder's leases some may have been freed by guess (reclaim.lua), and the place of this
  -- one left for another that lives: its next beat says what it holds, and lets go of the rest.
  local waits = lease and holder.quarantined == 1
  if lease and not waits then
    local worker = Crew.of_lease(crew, lease)
    Lease.give_back(pool, worker, lease, holder, seq, use == 'used')
    if worker then
      Ejection.judge(pool, worker, lease, outcome)
      local report = worker.report
      report.requests = report.requests + 1
      report.errors = report.errors + (Report.COUNTS_AS_ERROR[outcome] and 1 or 0)
      report.bytes_read = report.bytes_read + (Args.told(bytes_read) or 0)
      report.bytes_written = report.bytes_written + (Args.told(bytes_written) or 0)
      local us = Report.time_of_stream(pool, Args.told(handshake_us), Args.told(session_us))
      if not us and not Lease.has_told(lease) then
        us = Report.time_of_handshake(pool, Args.told(upgrade_us)) -- it overtook its observation
      end
      Report.take(pool, worker, lease, outcome, us)
    end
  end
  if lease and unbind ~= '' then
    Affinity.unbind(pool, unbind, lease)
  end
  known[#known + 1] = lease and not waits and '1' or '0'
  missing = missing + (lease and 0 or 1)
  if not waits then
    ended[#ended + 1] = lease_id
  end
end

Lease.bury(pool, ended)
Repair.count('tombstoned', missing)
Crew.save_learned(crew)
Holder.save(holder)
Pool.save(pool)
return { 'released', table.concat(known) }

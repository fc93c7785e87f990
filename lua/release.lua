-- release: gives leases of one holder back, and learns from how they went.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV     for each lease four: number, lease id, 'used' or 'unused', outcome; at most 64 leases
-- Returns  released, count of leases given back, count of ids that were not held
--          unknown_pool    the pool has no policy
-- Uses     keys rank dice strategies policy pool worker lease ejection
-- Keeps    I2 I3 I4 I5: a second release changes nothing; an id released before its admit arrives
--          is remembered for one lease_ttl_ms, and so is every ended one
-- Cost     O(log N) in the pool's workers for each lease; at most 8 calls each

local FIELDS = 4
local RELEASES_MAX = 64

local pool = open_pool()
if not pool then
  return { 'unknown_pool' }
end
local forget_at = pool.now + pool.policy.lease_ttl_ms
local released, unknown = 0, 0

for first = 1, math.min(#ARGV, RELEASES_MAX * FIELDS), FIELDS do
  local seq, lease_id, use, outcome = ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
  local lease = read_lease(seq)
  if lease then
    local worker = worker_of(lease)
    give_back_lease(pool, worker, seq, use == 'used')
    if worker then
      learn(pool, worker, lease, outcome)
      if worker.state == REMOVED and worker.active == 0 then
        forget_worker(pool, worker)
      else
        save_worker(pool, worker)
      end
    end
    released = released + 1
  else
    unknown = unknown + 1
  end
  redis.call('ZADD', TOMBSTONES, forget_at, lease_id)
end

save_pool(pool)
return { 'released', tostring(released), tostring(unknown) }

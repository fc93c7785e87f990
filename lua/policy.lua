-- policy: gives the pool a policy, creating the pool if need be, and ranks every worker anew.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   strategy, a name of strategies/
-- ARGV 2   max_concurrent, 1 .. 2^21 - 1
-- ARGV 3   max_lifetime, 0 for none
-- ARGV 4   heartbeat_ttl_ms
-- ARGV 5   lease_ttl_ms
-- ARGV 6   ejection_ms
-- ARGV 7   ejection_max_ms
-- ARGV 8   retry_after_ms
-- ARGV 9   forget_ms
-- ARGV 10  the policy as text, for people and for comparison
-- Returns  applied, version
--          unchanged, version     the pool has this very policy already
--          unknown_strategy
-- Uses     keys rank strategies policy pool worker lease
-- Keeps    I1: no lease is lost; a lowered limit lets workers above it run down
-- Cost     O(N log N) in the pool's workers: a rare step, not a decision

local text = ARGV[10]
local stored = redis.call('HMGET', POOL, 'policy_text', 'policy_version')
if stored[1] == text then
  return { 'unchanged', stored[2] }
end
if not strategies[ARGV[1]] then
  return { 'unknown_strategy' }
end

local version = redis.call('HINCRBY', POOL, 'policy_version', 1)
redis.call('HSET', POOL, 'policy_text', text, 'policy', pack_policy({
  version = version,
  strategy = ARGV[1],
  max_concurrent = tonumber(ARGV[2]),
  max_lifetime = tonumber(ARGV[3]),
  heartbeat_ttl_ms = tonumber(ARGV[4]),
  lease_ttl_ms = tonumber(ARGV[5]),
  ejection_ms = tonumber(ARGV[6]),
  ejection_max_ms = tonumber(ARGV[7]),
  retry_after_ms = tonumber(ARGV[8]),
  forget_ms = tonumber(ARGV[9]),
}))

local pool = open_pool()
redis.call('DEL', INDEX)
for _, id in ipairs(redis.call('HKEYS', WORKERS)) do
  local worker = read_worker(id)
  worker.indexed = 0
  if worker.state == AVAILABLE and at_its_limit(pool, worker) then
    reach_limit(pool, worker)
  end
  save_worker(pool, worker)
end
save_pool(pool)
return { 'applied', tostring(version) }

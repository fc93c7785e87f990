-- policy: gives the pool a policy, creating the pool if need be, and ranks every worker anew.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   the policy as JSON, checked by the caller
-- ARGV 2   a seed for the dice of a new pool, 1 .. 2^31 - 2
-- Returns  applied, version
--          unchanged, version     the pool has this very policy already
--          unknown_strategy
-- Uses     keys rank dice estimate strategies policy pool worker index
-- Keeps    I1: no lease is lost; a lowered limit lets workers above it run down
-- Cost     O(N log N) in the pool's workers: a rare step, not a decision

local text = ARGV[1]
local stored = redis.call('HMGET', POOL, 'policy_text', 'policy_version', 'head')
if stored[1] == text then
  return { 'unchanged', stored[2] }
end
local policy = cjson.decode(text)
if not strategies[policy.strategy] then
  return { 'unknown_strategy' }
end

policy.version = redis.call('HINCRBY', POOL, 'policy_version', 1)
redis.call('HSET', POOL, 'policy_text', text, 'policy', pack_policy(policy))
if not stored[3] then
  save_pool(new_head(tonumber(ARGV[2])))
end

local pool = open_pool()
redis.call('DEL', INDEX[1], INDEX[2], INDEX[3])
for _, id in ipairs(redis.call('HKEYS', WORKERS)) do
  local worker = read_worker(id)
  -- It enters the new strategy's indexes with nothing of the old one's.
  worker.eligible, worker.scores, worker.inputs = 0, { UNRANKED, UNRANKED, UNRANKED }, ''
  if worker.state == AVAILABLE and at_its_limit(pool, worker) then
    reach_limit(pool, worker)
  end
  note_heartbeat(pool, worker)
  save_worker(pool, worker)
end
save_pool(pool)
return { 'applied', tostring(policy.version) }

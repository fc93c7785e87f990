-- policy: gives the pool a policy, creating the pool if need be, and ranks every worker anew.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   the policy as JSON, checked by the caller
-- ARGV 2   a seed for the dice of a new pool, 1 .. 2^31 - 2
-- Returns  applied, version
--          unchanged, version     the pool has this very policy already
--          unknown_strategy
-- Uses     Args Client Dice Index Page Policy Pool Shadow Worker
-- Keeps    I1: no lease is lost; a lowered limit lets workers above it run down
-- Cost     O(N log N) in the pool's workers: a rare step, not a decision

Args.check(ARGV, 'jn')

local text = ARGV[1]
local stored = redis.call('HMGET', Keys.pool, 'policy_text', 'policy_version')
if stored[1] == text then
  return { 'unchanged', stored[2] }
end
local policy, former = Policy.decode(text), stored[1] and cjson.decode(stored[1]) or {}
local strategy = Strategies[policy.strategy]
if not strategy or (policy.shadow_strategy and not Strategies[policy.shadow_strategy]) then
  return { 'unknown_strategy' }
end

-- What a strategy remembers of the workers stays with those that understand it.
local former_strategy = Strategies[former.strategy]
local remembered = former_strategy and former_strategy.memory(former) == strategy.memory(policy)
if not remembered then
  redis.call('HDEL', Keys.live, 'shared')
  redis.call('DEL', Keys.latencies)
end
local version = redis.call('HINCRBY', Keys.pool, 'policy_version', 1)
-- The text last: without it the same policy can be given again.
redis.call('HSET', Keys.live, 'policy_mark', Policy.mark(version, text))
redis.call('HSET', Keys.pool, 'policy_text', text)
if redis.call('HEXISTS', Keys.live, 'head') == 0 then
  Pool.found(tonumber(ARGV[2]))
end

local pool = Pool.open()
-- What one way to count has kept means nothing to another.
if former.requests and policy.requests.algorithm ~= former.requests.algorithm then
  pool.rate = { at = 0, used = 0 }
end
local limit = pool.policy.requests.limit
if limit and not limit.windowed then
  -- No further ahead than the new rate can bring it, or a loosened one would be kept to the old.
  pool.rate.at = math.min(pool.rate.at, pool.now + limit.burst * limit.interval_ms)
end
if former.client and (policy.client.algorithm ~= former.client.algorithm
  or policy.client.rate ~= former.client.rate or policy.client.burst ~= former.client.burst) then
  Client.forget_rates()
end
if strategy.memory(policy) ~= 'load' then
  redis.call('DEL', Keys.latencies) -- of a shadow, perhaps: those that serve are listed anew
end
Dice.forget(pool)
local ids = Page.all_ids()
Shadow.clear(pool, ids)
redis.call('DEL', Keys.index[1], Keys.index[2], Keys.index[3])
for _, id in ipairs(ids) do
  local worker = Worker.read_with_report(pool, id)
  worker.eligible, worker.scores = 0, Worker.unranked()
  if not remembered then
    worker.inputs = ''
    if strategy.recall then
      strategy.recall(pool, worker, worker.report)
    end
  end
  if pool.shadow and pool.shadow.strategy.recall then
    Shadow.within(pool, worker, function()
      pool.strategy.recall(pool, worker, worker.report)
    end)
  end
  if worker.state == Worker.AVAILABLE and Worker.at_its_limit(pool, worker) then
    Worker.reach_limit(pool, worker)
  end
  if policy.heartbeat_ttl_ms ~= former.heartbeat_ttl_ms then
    Index.note_heartbeat(pool, worker)
  end
  Index.save(pool, worker)
end
Pool.save(pool)
return { 'applied', tostring(version) }

-- The policy as packed numbers, because every decision reads it. The names are those of Policy in
-- admission/src/policy.rs; `parameters` are the strategy's own settings, packed by the strategy.

local POLICY = '>dddddddddBBc0Hc0'

local SERVICE_TIMES = { response = 1, session = 2, handshake = 3 }

local function pack_policy(policy)
  local parameters = strategies[policy.strategy]().parameters(policy)
  return struct.pack(POLICY, policy.version, policy.max_concurrent, policy.max_lifetime,
    policy.heartbeat_ttl_ms, policy.lease_ttl_ms, policy.ejection_ms, policy.ejection_max_ms,
    policy.retry_after_ms, policy.forget_ms, SERVICE_TIMES[policy.service_time], #policy.strategy,
    policy.strategy, #parameters, parameters)
end

local function unpack_policy(text)
  local policy = {}
  policy.version, policy.max_concurrent, policy.max_lifetime, policy.heartbeat_ttl_ms,
    policy.lease_ttl_ms, policy.ejection_ms, policy.ejection_max_ms, policy.retry_after_ms,
    policy.forget_ms, policy.service_time, policy.strategy, policy.parameters =
    struct.unpack(POLICY, text)
  return policy
end

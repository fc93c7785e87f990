-- The policy as packed numbers, because every decision reads it. The names are those of Policy in
-- admission/src/policy.rs.

local POLICY = '>dddddddddBc0'

local function pack_policy(policy)
  return struct.pack(POLICY, policy.version, policy.max_concurrent, policy.max_lifetime,
    policy.heartbeat_ttl_ms, policy.lease_ttl_ms, policy.ejection_ms, policy.ejection_max_ms,
    policy.retry_after_ms, policy.forget_ms, #policy.strategy, policy.strategy)
end

local function unpack_policy(text)
  local policy = {}
  policy.version, policy.max_concurrent, policy.max_lifetime, policy.heartbeat_ttl_ms,
    policy.lease_ttl_ms, policy.ejection_ms, policy.ejection_max_ms, policy.retry_after_ms,
    policy.forget_ms, policy.strategy = struct.unpack(POLICY, text)
  return policy
end

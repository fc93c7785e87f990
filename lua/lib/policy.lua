-- The pool's policy, as admission/src/policy.rs spells it. Decoding it takes longer than a decision,
-- so it is kept between calls; its mark tells whether the pool still has that one.

local Policy = {}

-- By pool: mark, policy.
local known = {}

-- The same version may come twice with different words, after Redis has lost everything.
function Policy.mark(version, text)
  return version .. ':' .. redis.sha1hex(text)
end

-- With what is read off it more often than it changes.
function Policy.decode(text)
  local policy = cjson.decode(text)
  policy.requests.limit = Rate.limit_of(policy.requests)
  policy.client.limit = Rate.limit_of(policy.client)
  policy.is_limited = policy.requests.limit or policy.client.limit or policy.client.max_concurrent > 0
    or policy.global_conn > 0
  policy.shadowed = {}
  for _, limit in ipairs(policy.shadow) do
    policy.shadowed[limit] = true
  end
  return policy
end

function Policy.read(mark)
  local kept = known[Keys.pool]
  if not kept or kept.mark ~= mark then
    local text = redis.call('HGET', Keys.pool, 'policy_text')
    kept = { mark = mark, policy = Policy.decode(text) }
    kept.policy.version = tonumber(mark:match('^%d+'))
    known[Keys.pool] = kept
  end
  return kept.policy
end

return Policy

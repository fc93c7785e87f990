-- Strategies by name. Each has
--   rank(worker) -> score, prefix     its place in the index: lowest score first, then prefix
--   choose(pool) -> member, or nil    the index member to take
--   prefix_bytes                      how long its prefixes are: the rest of a member is the worker
-- They are small on purpose: limits, leases and ejection are the same for all.
local strategies = {}

local function worker_in(pool, member)
  return member:sub(pool.strategy.prefix_bytes + 1)
end

-- The order of doubles ≥ 0 as the order of bytes, for ties inside one score.
local function be(number)
  return struct.pack('>d', number)
end

-- Strategies by name. Each has
--   rank(worker) -> score, prefix     its place in the index: lowest score first, then prefix
--   choose(pool) -> member, or nil    the index member to take
--   enter(pool, worker)               it may be chosen again: before it is ranked
--   taken(pool, worker)               it was chosen: before it is ranked anew
--   prefix_bytes                      how long its prefixes are: the rest of a member is the worker
-- They are small on purpose: limits, leases and ejection are the same for all.
local strategies = {}

local function worker_in(pool, member)
  return member:sub(pool.strategy.prefix_bytes + 1)
end

local function nothing() end

-- The order of doubles ≥ 0 as the order of bytes, for ties inside one score.
local function be(number)
  return struct.pack('>d', number)
end

local function first_of_index()
  return redis.call('ZRANGE', INDEX, 0, 0)[1]
end

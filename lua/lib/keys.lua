-- The keys of one pool, named anew for every call.

local Keys = { index = {} }

-- In the order in which every function receives them (redis-sidecar/src/keys.rs).
function Keys.name(keys)
  Keys.pool = keys[1]       -- HASH head, shared, policy_*, rejected:<reason>, ejections
  Keys.workers = keys[2]    -- HASH worker -> record
  Keys.reports = keys[3]    -- HASH worker -> what was learned about it
  Keys.heartbeats = keys[4] -- ZSET worker -> last heartbeat: the fresh workers
  Keys.absent = keys[5]     -- ZSET worker -> last heartbeat: workers whose heartbeats ended
  Keys.ejected = keys[6]    -- ZSET worker -> end of its exile
  Keys.tombstones = keys[7] -- ZSET lease -> when it is forgotten: leases that ended
  -- ZSET prefix..worker -> score: the workers that may be chosen now, an index for each kind of request
  Keys.index[1], Keys.index[2], Keys.index[3] = keys[8], keys[9], keys[10]
  Keys.former = keys[11]    -- HASH worker -> its lives before the present one
  Keys.latencies = keys[12] -- ZSET worker -> latency it reports: those that serve
  Keys.holder = keys[13]    -- HASH lease number -> lease: one holder's leases
end

return Keys

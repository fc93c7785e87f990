-- The keys of one pool, named anew for every call.

local Keys = {}

-- Where the holder's key stands, or several of them.
Keys.FIRST_HOLDER = 20

local index, shadow_index

-- In the order in which every function receives them (redis-sidecar/src/keys.rs).
-- The last argument of every call is not the verb's own: which server this is.
local function name_pool(keys)
  Keys.pool = keys[1]       -- HASH policy_text, policy_version, levels, rejected:<reason>, shadowed:<limit>,
                            -- repairs:<kind>, ejections, unbound, shadow_levels
  -- HASH head, shared, policy_mark, store_id, shadow_head, shadow_shared; worker:<id> -> its record,
  -- report:<id> -> what was learned about it, shadow:<id> -> what the strategy in the shadow keeps of it
  Keys.live = keys[2]
  Keys.heartbeats = keys[3] -- ZSET worker -> last heartbeat: the fresh workers
  Keys.absent = keys[4]     -- ZSET worker -> last heartbeat: workers whose heartbeats ended
  Keys.ejected = keys[5]    -- ZSET worker -> end of its exile
  Keys.tombstones = keys[6] -- ZSET lease -> when it is forgotten: leases that ended
  -- ZSET prefix..worker -> score: the workers that may be chosen now, an index for each kind of request
  index = { keys[7], keys[8], keys[9] }
  Keys.former = keys[10]    -- HASH worker -> its lives before the present one
  Keys.latencies = keys[11] -- ZSET worker -> latency it reports: those that serve
  Keys.holders = keys[12]   -- ZSET epoch -> when to look at that holder again
  Keys.awaited = keys[13]   -- ZSET epoch -> since when: holders that the present rebuild waits for
  -- HASH client:<key> -> leases it has, rate:<client> -> how often it came, affinity:<key> -> the worker it is
  -- bound to; clients, rates, bindings: how many; rates_due, bindings_due: when one may be over (lib/visit.lua)
  Keys.keys = keys[14]
  Keys.rate_expiry = keys[15] -- ZSET client -> when its rate says nothing any more, or earlier
  Keys.affinity_expiry = keys[16] -- ZSET key -> when it is unbound
  -- The same as `index`, for the strategy that runs in the shadow
  shadow_index = { keys[17], keys[18], keys[19] }
end

-- A pool is named once while calls for it follow each other. What a call may have left exchanged, because
-- an error ended it half-way (lib/shadow.lua), is put back for each.
function Keys.name(keys, server)
  -- A call by hand with too few keys leaves some without a name.
  if keys[1] ~= Keys.pool or not shadow_index[3] then
    name_pool(keys)
  end
  Keys.server = server
  if Keys.index ~= index then
    Keys.index, Keys.shadow_index = index, shadow_index
  end
  Keys.holder = keys[Keys.FIRST_HOLDER] -- HASH head, asking, lease number -> lease: one holder
end

return Keys

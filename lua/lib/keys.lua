-- The keys of one pool, in the order every script receives them (redis-sidecar/src/keys.rs).
local POOL = KEYS[1]       -- HASH head, policy, policy_text, rejected:<reason>, ejections
local WORKERS = KEYS[2]    -- HASH worker -> record
local INDEX = KEYS[3]      -- ZSET prefix..worker -> score: the workers that may be chosen now
local HEARTBEATS = KEYS[4] -- ZSET worker -> last heartbeat: the fresh workers
local ABSENT = KEYS[5]     -- ZSET worker -> last heartbeat: workers whose heartbeats ended
local EJECTED = KEYS[6]    -- ZSET worker -> end of its exile
local TOMBSTONES = KEYS[7] -- ZSET lease -> when it is forgotten: leases that ended
local HOLDER = KEYS[8]     -- HASH lease number -> lease: one holder's leases

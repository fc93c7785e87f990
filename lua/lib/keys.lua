-- The keys of one pool, in the order every script receives them (redis-sidecar/src/keys.rs).
local POOL = KEYS[1]       -- HASH head, policy, policy_text, rejected:<reason>, ejections
local WORKERS = KEYS[2]    -- HASH worker -> record
local REPORTS = KEYS[3]    -- HASH worker -> what was learned about it
local HEARTBEATS = KEYS[4] -- ZSET worker -> last heartbeat: the fresh workers
local ABSENT = KEYS[5]     -- ZSET worker -> last heartbeat: workers whose heartbeats ended
local EJECTED = KEYS[6]    -- ZSET worker -> end of its exile
local TOMBSTONES = KEYS[7] -- ZSET lease -> when it is forgotten: leases that ended
-- ZSET prefix..worker -> score: the workers that may be chosen now, one index for each kind of request
local INDEX = { KEYS[8], KEYS[9], KEYS[10] }
local FORMER = KEYS[11]    -- HASH worker -> its lives before the present one
local HOLDER = KEYS[12]    -- HASH lease number -> lease: one holder's leases

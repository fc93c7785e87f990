-- renew: a holder's beat. It keeps the holder alive, and compares what it holds with what the store has.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV 1   beat, above 0
-- ARGV 2   the holder's proxy
-- ARGV 3   'beat', or 'compare' to compare once more for the beat that was heard last
-- ARGV 4   how many leases it holds; empty when it cannot tell
-- ARGV 5   their digest, 0 .. 2^32 - 1
-- ARGV 6   the rebuild before which nothing is asked for any more; empty for none
-- ARGV 7   how many numbers follow that are asked for
-- ARGV     then these, then those that ended unacknowledged; at most 4000 together
-- Returns  kept | list | stale, lost (0 or 1), the rebuild that waits for it (or 0), lease_ttl_ms
--          unknown_pool    the pool has no policy
-- Uses     Args Holder Pool Rebuild
-- Keeps    I4 I8: a beat not above the last changes nothing
-- Cost     8 calls, however many leases the holder has

Args.check(ARGV, 'lttNNNn', 'l')

local UNDER_WAY_MAX = 4000
local FIRST = 8

local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local beat, count, digest = tonumber(ARGV[1]), tonumber(ARGV[4]), tonumber(ARGV[5])
local last_asking = FIRST - 1 + tonumber(ARGV[7])
local asking, under_way = {}, {}
for i = FIRST, math.min(#ARGV, FIRST - 1 + UNDER_WAY_MAX) do
  under_way[#under_way + 1] = ARGV[i]
  if i <= last_asking then
    asking[#asking + 1] = ARGV[i]
  end
end
local holder = Holder.open(under_way)

local function answer(verdict, lost)
  local waits = holder.reported ~= pool.rebuild and Rebuild.goes_on(pool)
  return { verdict, lost and '1' or '0', string.format('%.0f', waits and pool.rebuild or 0),
    string.format('%.0f', pool.policy.lease_ttl_ms) }
end

local compares = ARGV[3] == 'compare'
if compares and beat ~= holder.beat or not compares and beat <= holder.beat then
  return answer('stale', false)
end
local lost = not compares and holder.reclaimed_at > 0
if not compares then
  if not holder.known then
    Holder.note(pool, holder, ARGV[2])
  end
  Holder.beat(pool, holder, beat, asking)
end

local verdict = 'kept'
if count and not Holder.agrees(holder, count, digest, under_way) then
  verdict = 'list'
elseif count and tonumber(ARGV[6]) == pool.rebuild then
  Rebuild.hear(pool, holder)
end
Holder.save(holder)
local told = answer(verdict, lost)
Pool.save(pool)
return told

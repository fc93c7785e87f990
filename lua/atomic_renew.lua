-- atomic_renew: an owner is heard of, and keeps what it holds.
--
-- KEYS     the count's keys (lib/count.lua)
-- ARGV 1   owner
-- ARGV 2   the owner's time in ms from now on; 0: as it was
-- Returns  renewed, count, taken back, held    held is what this owner holds, 0 if it was taken back
--          again, count, taken back            more is to be swept than one call should do: call again
-- Uses     Args Count
-- Keeps    what was taken back is not held again
-- Cost     O(log N) in the owners; at most 12 calls when nothing is to be swept

Args.check(ARGV, 'tn')
local count = Count.open(KEYS)
local ttl_ms = tonumber(ARGV[2])
if not count.swept then
  return { 'again', tostring(count.total), tostring(count.taken_back) }
end
local share = Count.share(count, ARGV[1])
if share.held > 0 then
  share.ttl_ms = ttl_ms > 0 and ttl_ms or share.ttl_ms
  Count.change(count, share, 0)
end
return { 'renewed', tostring(count.total), tostring(count.taken_back), tostring(share.held) }

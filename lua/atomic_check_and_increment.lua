-- atomic_check_and_increment: holds one more, if fewer than the limit are held.
--
-- KEYS     the count's keys (lib/count.lua)
-- ARGV 1   limit, 0 .. 10^9
-- ARGV 2   owner, empty for none
-- ARGV 3   the owner's time in ms, 0 without an owner
-- Returns  allowed, count, taken back
--          limit_exceeded, count, taken back
--          too_many_owners, count, taken back
--          again, count, taken back    more is to be swept than one call should do: call again
-- Uses     Args Count
-- Keeps    the count is the sum of what is held, and was below the limit before it grew; what an owner
--          holds is taken back only after its time; an empty count has no keys
-- Cost     O(log N) in the owners; at most 13 calls when nothing is to be swept

Args.check(ARGV, 'ntn')
local count = Count.open(KEYS)
local limit, owner, ttl_ms = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local function answer(word)
  return { word, tostring(count.total), tostring(count.taken_back) }
end

if not count.swept then
  return answer('again')
end
local share = Count.share(count, owner)
share.ttl_ms = ttl_ms
if count.total >= limit then
  if share.held > 0 then
    Count.change(count, share, 0)
  end
  return answer('limit_exceeded')
end
if share.held == 0 and owner ~= Count.NOBODY and Count.is_crowded(count) then
  return answer('too_many_owners')
end
Count.change(count, share, 1)
return answer('allowed')

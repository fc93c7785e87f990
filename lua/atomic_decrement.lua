-- atomic_decrement: gives back one of those that an owner holds, or one of those without an owner.
--
-- KEYS     the count's keys (lib/count.lua)
-- ARGV 1   owner, empty for none
-- Returns  counted, count, taken back
--          unheld, count, taken back    this owner holds none: nothing was given back
--          again, count, taken back     more is to be swept than one call should do: call again
-- Uses     Args Count
-- Keeps    nobody gives back what another holds, so the count is never below what is held, nor below 0;
--          an empty count has no keys
-- Cost     O(log N) in the owners; at most 12 calls when nothing is to be swept

Args.check(ARGV, 't')
local count = Count.open(KEYS)

local function answer(word)
  return { word, tostring(count.total), tostring(count.taken_back) }
end

if not count.swept then
  return answer('again')
end
local share = Count.share(count, ARGV[1])
if share.held == 0 then
  return answer('unheld')
end
Count.change(count, share, -1)
return answer('counted')

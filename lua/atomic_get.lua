-- atomic_get: tells how many are held.
--
-- KEYS     the count's keys (lib/count.lua)
-- ARGV     none
-- Returns  counted, count, taken back
--          again, count, taken back    more is to be swept than one call should do: call again
-- Uses     Count
-- Keeps    what owners held whose time is over is not told of, but taken back
-- Cost     O(log N) in the owners; at most 3 calls when nothing is to be swept

local count = Count.open(KEYS)
if not count.swept then
  return { 'again', tostring(count.total), tostring(count.taken_back) }
end
return { 'counted', tostring(count.total), tostring(count.taken_back) }

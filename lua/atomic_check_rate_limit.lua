-- atomic_check_rate_limit: counts a request, if the present window has room for it.
--
-- KEYS 1   ws:atomic:{key}:rate_limit:<seconds>    STRING window:requests, gone when the window ends
-- ARGV 1   requests in a window, 0 .. 10^9
-- ARGV 2   the window in seconds, 1 .. 86400; windows begin at its multiples, by Redis' clock
-- Returns  allowed, requests, retry_after_ms           0
--          limit_exceeded, requests, retry_after_ms    until the window ends
-- Uses     Args Count
-- Keeps    a window has no more requests than its limit; who is refused uses up nothing
-- Cost     O(1); at most 3 calls

Args.check(ARGV, 'nn')

local limit, window_ms = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000
local now = Count.now_ms()
local window = math.floor(now / window_ms)
local ends = (window + 1) * window_ms

-- The key goes with its window; its number is looked at too, for the moment between the two.
local number, used = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+):(%d+)$')
local requests = tonumber(number) == window and tonumber(used) or 0
if requests >= limit then
  return { 'limit_exceeded', tostring(requests), tostring(ends - now) }
end
requests = requests + 1
redis.call('SET', KEYS[1], string.format('%.0f:%.0f', window, requests), 'PXAT', ends)
return { 'allowed', tostring(requests), '0' }

-- inventory: the numbers of one holder's leases, a page at a time, to be compared with its own list.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV 1   cursor, '0' for the first page
-- Returns  inventory, next cursor ('0': this was the last page), numbers
--          unknown_pool    the pool has no policy
-- Uses     Page Pool
-- Keeps    nothing: it only reads
-- Cost     O(page), a page being about 200 leases (all of them of a small holder)

local pool = Pool.look()
if not pool then
  return { 'unknown_pool' }
end
local numbers = {}
local next_cursor = Page.of_holder(Keys.holder, ARGV[1], function(number)
  numbers[#numbers + 1] = number
end)
return { 'inventory', next_cursor, unpack(numbers) }

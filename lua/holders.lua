-- holders: the epochs of the pool's holders, a page at a time, those reclaimed lately included.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   cursor, '0' for the first page
-- Returns  holders, next cursor ('0': this was the last page), epochs
--          unknown_pool    the pool has no policy
-- Uses     Page Pool
-- Keeps    nothing: it only reads
-- Cost     O(page), a page being about 200 holders (all of them in a small pool)

local pool = Pool.look()
if not pool then
  return { 'unknown_pool' }
end
local next_cursor, epochs = Page.of_holders(ARGV[1])
return { 'holders', next_cursor, unpack(epochs) }

-- leases: one holder's leases as operators see them, a page at a time.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV 1   cursor, '0' for the first page
-- Returns  leases, next cursor ('0': this was the last page), the holder's proxy, leases as JSON
--          unknown_pool    the pool has no policy
-- Uses     Crew Former Holder Lease Page Pool
-- Keeps    nothing: it only reads
-- Cost     O(page), a page being about 200 leases (all of them of a small holder)

local pool = Pool.look()
if not pool then
  return { 'unknown_pool' }
end
local holder, crew, leases = Holder.open({}), Crew.new(pool), {}

local function state_of(number)
  if holder.quarantined == 1 then
    return 'quarantined'
  end
  return Holder.beat_of(number) < holder.beat and 'held' or 'reserved'
end

local next_cursor = Page.of_holder(Keys.holder, ARGV[1], function(number, text)
  local lease = Lease.unpack(text)
  local worker = Crew.of_lease(crew, lease)
  local known = lease.since ~= Lease.SINCE_BEFORE
  leases[#leases + 1] = cjson.encode({
    number = number, -- as text: scripts write large numbers short
    worker = lease.worker,
    incarnation = worker and worker.incarnation or Former.incarnation_of(lease.worker, lease.birth),
    age_ms = known and math.floor(pool.now - lease.since) or nil,
    state = state_of(number),
  })
end)
return { 'leases', next_cursor, holder.proxy, '[' .. table.concat(leases, ',') .. ']' }

-- Every repair is counted: what was lost, late or forgotten, and put right.

local Repair = {}

-- Kinds: tombstoned, reasserted, renounced, reclaimed_presence, reclaimed_ttl, quarantined,
-- freed_by_sessions, rebuilds, overcommitted.
function Repair.count(kind, times)
  if times > 0 then
    redis.call('HINCRBY', Keys.pool, 'repairs:' .. kind, times)
  end
end

return Repair

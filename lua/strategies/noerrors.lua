-- Chance by karma among the workers with the lowest ratio of hard errors, then of errors and
-- warnings. Those without any success are for the last resort, and then all are alike.

local NO_SUCCESS = 2 -- above any ratio

local function ratio(pool, part, total)
  local value = part / total
  return value > pool.policy.noerrors.tolerance and value or 0
end

return Conduct.strategy({
  level = function(pool, conduct)
    local good = conduct.good + conduct.last_good
    if good + conduct.pings + conduct.last_pings == 0 then
      return NO_SUCCESS, 0
    end
    local hard = conduct.hard + conduct.last_hard
    local bad = hard + conduct.warnings + conduct.last_warnings
    if bad == 0 then
      return 0, 0
    end
    return ratio(pool, hard, good + bad), ratio(pool, bad, good + bad)
  end,

  pace = function(worker)
    local conduct = Conduct.of(worker)
    return conduct.level == NO_SUCCESS and worker.weight or worker.weight * conduct.karma
  end,

  prefix = function(worker)
    return Rank.be(Conduct.of(worker).second) .. Rank.be(worker.clock)
  end,
  prefix_bytes = 16,
  usual_prefix = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0',

  describe = function(_, worker)
    local conduct = Conduct.of(worker)
    return { karma = conduct.karma, weight = worker.weight, hard_ratio = conduct.level,
      error_ratio = conduct.second, clock = worker.clock }
  end,
})

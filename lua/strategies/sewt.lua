-- Shortest expected waiting time: leases times the time one takes, for its weight. Requests of
-- different sizes have estimates and an index of their own.

-- Assumed while nothing was observed.
local UNSEEN_US = 1000

-- A worker's inputs: the expected time for each size, 0 while there is none.
local INPUTS = '>ddd'

local function times_of(worker)
  if worker.inputs == '' then
    return { 0, 0, 0 }
  end
  return { struct.unpack(INPUTS, worker.inputs) }
end

local function expected_us(worker, kind)
  local seen = worker.inputs == '' and 0 or struct.unpack('>d', worker.inputs, 8 * kind - 7)
  return seen > 0 and seen or UNSEEN_US
end

return Rank.strategy({
  memory = function()
    return 'estimates'
  end,

  kinds = function(pool)
    return #pool.policy.sewt.size_buckets + 1
  end,

  kind_of = function(pool, request)
    local kind = 1
    for _, bytes in ipairs(pool.policy.sewt.size_buckets) do
      if request.bytes > bytes then
        kind = kind + 1
      end
    end
    return kind
  end,

  -- An idle worker costs nothing, whatever its speed; among idle ones the fastest comes first.
  rank = function(_, worker, kind)
    local expected = expected_us(worker, kind)
    if worker.active == 0 then
      return -1 / expected
    end
    return worker.active * expected / worker.weight
  end,

  learn = function(pool, worker, lease, about)
    local report, kind = about.report, lease.kind
    report.estimates = report.estimates or { Estimate.new(), Estimate.new(), Estimate.new() }
    report.rest = nil
    local times = times_of(worker)
    times[kind] = Estimate.update(pool.policy.sewt, report.estimates[kind], about.us)
    worker.inputs = struct.pack(INPUTS, times[1], times[2], times[3])
  end,

  recall = function(_, worker, report)
    if report.estimates then
      local times = {}
      for kind, estimate in ipairs(report.estimates) do
        times[kind] = estimate.expected
      end
      worker.inputs = struct.pack(INPUTS, times[1], times[2], times[3])
    end
  end,

  describe = function(_, worker, kind)
    return { active = worker.active, expected_ms = expected_us(worker, kind) / 1000,
      weight = worker.weight }
  end,
})

-- Shortest expected waiting time: leases times the time one takes, for its weight. Requests of
-- different sizes have estimates and an index of their own.

-- Assumed while nothing was observed.
local UNSEEN_US = 1000

-- A worker's inputs: the expected time for each size, 0 while there is none.
local SEWT_INPUTS = '>ddd'

-- alpha, adaptive_alpha, alpha_min, alpha_max, estimator, size_buckets
local function sewt_settings(pool)
  pool.sewt = pool.sewt or cmsgpack.unpack(pool.policy.parameters)
  return pool.sewt
end

local function expected_us(worker, kind)
  if worker.inputs == '' then
    return UNSEEN_US
  end
  local seen = ({ struct.unpack(SEWT_INPUTS, worker.inputs) })[kind]
  return seen > 0 and seen or UNSEEN_US
end

strategies.sewt = function()
  return strategy({
    parameters = function(policy)
      return cmsgpack.pack(policy.sewt)
    end,

    kinds = function(pool)
      return #sewt_settings(pool).size_buckets + 1
    end,

    kind_of = function(pool, request)
      local kind = 1
      for _, bytes in ipairs(sewt_settings(pool).size_buckets) do
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

    learn = function(pool, worker, report, sample)
      local settings = sewt_settings(pool)
      report.estimates = report.estimates or {}
      for kind = 1, 3 do
        report.estimates[kind] = report.estimates[kind] or new_estimate()
      end
      local inputs = { 0, 0, 0 }
      if worker.inputs ~= '' then
        inputs = { struct.unpack(SEWT_INPUTS, worker.inputs) }
      end
      inputs[sample.kind] = update_estimate(settings, report.estimates[sample.kind], sample.us)
      worker.inputs = struct.pack(SEWT_INPUTS, inputs[1], inputs[2], inputs[3])
    end,
  })
end

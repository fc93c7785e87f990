-- What a request on a worker is expected to take, from those that were answered well.

local Estimate = {}

-- A decaying histogram for the high percentiles: half an octave to a bucket, 64 µs to 18 minutes.
local HISTOGRAM_BUCKETS = 48
local HISTOGRAM_FIRST_US = 64
-- What was seen fifty observations ago still counts for a third.
local HISTOGRAM_DECAY = 0.98

local PERCENTILE = { p95 = 0.95, p99 = 0.99 }

-- More variance, larger alpha; both ends are bounded. Variance is judged relative to the mean.
local function adaptive_alpha(settings, estimate)
  local relative = estimate.variance / (estimate.mean * estimate.mean)
  return settings.alpha_min
    + (settings.alpha_max - settings.alpha_min) * relative / (1 + relative)
end

local function update_mean(settings, estimate, us)
  if estimate.mean == 0 then
    estimate.mean = us
    return
  end
  local alpha = settings.adaptive_alpha and adaptive_alpha(settings, estimate) or settings.alpha
  local difference = us - estimate.mean
  estimate.mean = alpha * us + (1 - alpha) * estimate.mean
  estimate.variance = (1 - alpha) * (estimate.variance + alpha * difference * difference)
end

local function update_histogram(estimate, us)
  local octaves = math.log(math.max(us, HISTOGRAM_FIRST_US) / HISTOGRAM_FIRST_US) / math.log(2)
  local bucket = math.min(HISTOGRAM_BUCKETS, math.floor(octaves * 2) + 1)
  local histogram = estimate.histogram
  for i = 1, HISTOGRAM_BUCKETS do
    histogram[i] = (histogram[i] or 0) * HISTOGRAM_DECAY
  end
  histogram[bucket] = histogram[bucket] + 1
end

-- The upper edge of the bucket in which the percentile lies.
local function percentile_us(histogram, fraction)
  local total, sum = 0, 0
  for i = 1, HISTOGRAM_BUCKETS do
    total = total + histogram[i]
  end
  for i = 1, HISTOGRAM_BUCKETS do
    sum = sum + histogram[i]
    if sum >= fraction * total then
      return HISTOGRAM_FIRST_US * 2 ^ (i / 2)
    end
  end
  return HISTOGRAM_FIRST_US * 2 ^ (HISTOGRAM_BUCKETS / 2)
end

function Estimate.new()
  return { mean = 0, variance = 0, histogram = {}, expected = 0 }
end

-- Takes an observation in. Returns the expected time in microseconds.
function Estimate.update(settings, estimate, us)
  update_mean(settings, estimate, us)
  local fraction = PERCENTILE[settings.estimator]
  if fraction then
    update_histogram(estimate, us)
    estimate.expected = percentile_us(estimate.histogram, fraction)
  else
    estimate.expected = estimate.mean
  end
  return estimate.expected
end

return Estimate

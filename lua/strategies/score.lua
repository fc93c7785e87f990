-- By what the workers report about their load: a weighted sum of free room, speed and health, with an
-- index for each operation. One of the best is drawn, so that a burst does not fall on a single one.

-- When it was reported, the figures, then: leases open now that the report does not know of, those of
-- them that begin a transaction, and the latency that is listed among the pool's.
local INPUTS = '>dBddddddddddddIId'

-- What the pool keeps of the median when it is to be found anew.
local UNKNOWN = ''

local OPERATIONS = { query = 1, execute = 2, begin = 3 }
local NAMES = { 'query', 'execute', 'begin' }

local function clamp01(value)
  return math.max(0, math.min(1, value))
end

-- The worker's load as it reports it; nil while it has not.
local function load_of(worker)
  if not worker.load and worker.inputs ~= '' then
    local load = {}
    load.at, load.serving, load.http, load.http_max, load.open, load.open_max, load.tx, load.tx_max,
      load.idle, load.waiting, load.latency_ms, load.errors, load.timeouts, load.uptime_s,
      load.unknown_http, load.unknown_tx, load.listed = struct.unpack(INPUTS, worker.inputs)
    worker.load = load
  end
  return worker.load
end

local function pack(load)
  return struct.pack(INPUTS, load.at, load.serving, load.http, load.http_max, load.open, load.open_max,
    load.tx, load.tx_max, load.idle, load.waiting, load.latency_ms, load.errors, load.timeouts,
    load.uptime_s, load.unknown_http, load.unknown_tx, load.listed)
end

-- What it reports replaces what was known, and all open leases are in it.
local function take_load(pool, worker, report)
  local former = load_of(worker)
  worker.load = {
    at = pool.now, serving = report.status == 'SERVING' and 1 or 0,
    http = report.runningHttpSession, http_max = report.maxHttpSessions,
    open = report.openConns, open_max = report.maxOpenConns,
    tx = report.runningTx, tx_max = report.maxTransactionConns,
    idle = report.idleConns, waiting = report.waitConnCount, latency_ms = report.p95LatencyMs,
    errors = report.errorRate1m, timeouts = report.timeouts1m, uptime_s = report.uptimeSec,
    unknown_http = 0, unknown_tx = 0, listed = former and former.listed or 0,
  }
end

-- Keeps the worker's latency among the pool's while it serves.
local function list_latency(pool, worker, load)
  local fresh = worker.state ~= Worker.REMOVED and Worker.is_fresh(pool, worker)
  local latency = fresh and load.serving == 1 and load.latency_ms or 0
  if latency == load.listed then
    return
  end
  if latency > 0 then
    redis.call('ZADD', Keys.latencies, latency, worker.id)
  else
    redis.call('ZREM', Keys.latencies, worker.id)
  end
  load.listed, pool.median_ms, pool.shared = latency, false, UNKNOWN
end

-- 0 while no worker has told a latency. It is kept until a latency changes.
local function median_ms(pool)
  if not pool.median_ms and pool.shared and pool.shared ~= UNKNOWN then
    pool.median_ms = struct.unpack('>d', pool.shared)
  elseif not pool.median_ms then
    local count = redis.call('ZCARD', Keys.latencies)
    local low, high = math.floor((count - 1) / 2), math.floor(count / 2)
    local middle = count > 0 and redis.call('ZRANGE', Keys.latencies, low, high, 'WITHSCORES') or {}
    pool.median_ms = count > 0 and (tonumber(middle[2]) + tonumber(middle[#middle])) / 2 or 0
  end
  return pool.median_ms
end

local function latency_score(pool, settings, load, absolute)
  if not settings.relative_latency or median_ms(pool) == 0 then
    return absolute
  end
  local ratio = load.latency_ms / median_ms(pool)
  return ratio <= 1 and 1 or clamp01(1 / (1 + (ratio - 1) * settings.relative_k))
end

-- Everything between 0 and 1, as the weights name it.
local function parts_of(pool, load)
  local settings = pool.policy.score
  local absolute = clamp01(1 - math.log(1 + load.latency_ms) / math.log(1 + settings.latency_max_ms))
  return {
    db_free = clamp01(1 - (load.open + load.unknown_http) / load.open_max),
    http_free = clamp01(1 - (load.http + load.unknown_http) / load.http_max),
    tx_free = clamp01(1 - (load.tx + load.unknown_tx) / load.tx_max),
    latency = latency_score(pool, settings, load, absolute),
    absolute_latency = absolute,
    errors = clamp01(1 - load.errors / settings.errors_max),
    timeouts = clamp01(1 - load.timeouts / settings.timeouts_max),
    wait = clamp01(1 - load.waiting / settings.wait_max),
    idle = clamp01(load.idle / load.open_max),
    uptime = clamp01(load.uptime_s / settings.uptime_full_s),
  }
end

-- Why the worker may not be chosen for this operation, or nil.
local function gate_of(pool, load, kind)
  local settings = pool.policy.score
  if not load then
    return 'no_report'
  elseif load.serving == 0 then
    return 'not_serving'
  elseif load.http_max <= 0 or load.open_max <= 0 or load.tx_max <= 0 then
    return 'no_capacity'
  elseif load.uptime_s < settings.min_uptime_s then
    return 'too_young'
  end
  local parts = load.parts
  if parts.db_free <= 0 then
    return 'no_connection_free'
  elseif kind == OPERATIONS.begin then
    if parts.tx_free < settings.begin_tx_free_min then
      return 'no_transaction_free'
    elseif load.waiting >= settings.begin_wait_max then
      return 'too_many_waiting'
    end
  elseif parts.errors == 0 then
    return 'too_many_errors'
  elseif parts.absolute_latency == 0 then
    return 'too_slow'
  end
end

local function score_of(pool, load, kind)
  local weights, parts = pool.policy.score[NAMES[kind]], load.parts
  return weights.db_free * parts.db_free + weights.http_free * parts.http_free
    + weights.tx_free * parts.tx_free + weights.latency * parts.latency
    + weights.errors * parts.errors + weights.timeouts * parts.timeouts
    + weights.wait * parts.wait + weights.idle * parts.idle + weights.uptime * parts.uptime
end

-- One of the best, by chance in proportion to their scores.
local function draw(pool, kind)
  local last = pool.policy.score.top_k - 1
  local best = redis.call('ZRANGE', Keys.index[kind], 0, last, 'WITHSCORES')
  local total = 0
  for i = 2, #best, 2 do
    total = total - tonumber(best[i])
  end
  if total > 0 then
    local point = Dice.roll(pool) * total
    for i = 2, #best, 2 do
      point = point + tonumber(best[i])
      if point < 0 then
        return best[i - 1]
      end
    end
  end
  return best[1]
end

return Rank.strategy({
  memory = function()
    return 'load'
  end,

  shared = function(pool)
    return pool.median_ms and struct.pack('>d', pool.median_ms) or pool.shared == UNKNOWN and UNKNOWN
  end,

  kinds = function()
    return 3
  end,

  kind_of = function(_, request)
    return OPERATIONS[request.operation]
  end,

  rank = function(pool, worker, kind)
    local load = load_of(worker)
    if not gate_of(pool, load, kind) then
      return -score_of(pool, load, kind) * worker.weight
    end
  end,

  choose = draw,

  taken = function(_, worker, kind)
    local load = load_of(worker)
    if load then
      load.unknown_http = load.unknown_http + 1
      load.unknown_tx = load.unknown_tx + (kind == OPERATIONS.begin and 1 or 0)
    end
  end,

  -- A lease that is older than the report is in the report.
  left = function(_, worker, lease)
    local load = load_of(worker)
    if load and lease.since > load.at then
      load.unknown_http = load.unknown_http - 1
      load.unknown_tx = load.unknown_tx - (lease.kind == OPERATIONS.begin and 1 or 0)
    end
  end,

  seen = function(pool, worker, report)
    if report then
      take_load(pool, worker, report)
    end
  end,

  -- What its former life reported is true no more.
  born = function(pool, worker)
    local load = load_of(worker)
    if load then
      load.serving = 0
      list_latency(pool, worker, load)
    end
    worker.load, worker.inputs = false, ''
  end,

  settle = function(pool, worker)
    local load = load_of(worker)
    if load then
      list_latency(pool, worker, load)
      load.parts = parts_of(pool, load)
      worker.inputs = pack(load)
    end
  end,

  recall = function(pool, worker, report)
    if report.load and report.load_birth == worker.birth then
      take_load(pool, worker, report.load)
    end
  end,

  describe = function(pool, worker, kind)
    local load, inputs = load_of(worker), {}
    if load then
      load.parts = parts_of(pool, load)
    end
    local gate = gate_of(pool, load, kind)
    if load then
      for name, value in pairs(load.parts) do
        inputs[name] = value
      end
      inputs.score = not gate and score_of(pool, load, kind) or 0
      inputs.weight = worker.weight
      inputs.leases_since_report = load.unknown_http
    end
    return inputs, gate
  end,
})

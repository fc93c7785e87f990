-- view: the pool as operators see it, one page of workers at a time.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   cursor, '0' for the first page
-- Returns  view, next cursor ('0': this was the last page), then as JSON: pool, policy, workers
--          unknown_pool    the pool has no policy
-- Uses     Page Pool Rebuild Visit Worker
-- Keeps    nothing: it only reads
-- Cost     O(page), a page being about 200 workers (all of them in a small pool)

local pool = Pool.look()
if not pool then
  return { 'unknown_pool' }
end

-- The sum that lifetime_first's promise rests on: restarts do not overlap while a restart takes
-- less time than `margin` admissions.
local function margin_ms()
  if pool.fresh == 0 or pool.policy.max_lifetime == 0 then
    return 0
  end
  return Worker.margin(pool) * pool.interval_ms
end

-- The source's rate_limit:<window>, and what of it is used; for a rate without windows, how many
-- could come at once.
local function rate_shown()
  local limit = pool.policy.requests.limit
  if not limit then
    return nil
  elseif limit.windowed then
    local window = math.floor(pool.wall / limit.period_ms)
    return { window = window, used = pool.rate.at == window and pool.rate.used or 0 }
  end
  local ahead = math.max(0, pool.rate.at - pool.now) / limit.interval_ms
  return { free = math.max(0, math.floor(limit.burst - ahead + 1e-6)) }
end

local counters = redis.call('HGETALL', Keys.pool)
local rejected, shadowed, repairs, ejections, unbound = {}, {}, {}, 0, 0
local policy_text
for i = 1, #counters, 2 do
  local name, value = counters[i], counters[i + 1]
  local reason, kind = name:match('^rejected:(.*)$'), name:match('^repairs:(.*)$')
  local limit = name:match('^shadowed:(.*)$')
  if reason then
    rejected[reason] = tonumber(value)
  elseif limit then
    shadowed[limit] = tonumber(value)
  elseif name == 'unbound' then
    unbound = tonumber(value)
  elseif kind then
    repairs[kind] = tonumber(value)
  elseif name == 'ejections' then
    ejections = tonumber(value)
  elseif name == 'policy_text' then
    policy_text = value
  end
end
if next(rejected) == nil then
  rejected.pool_full = 0 -- cjson writes an empty table as an array
end
if next(shadowed) == nil then
  shadowed['requests.rate'] = 0
end
if next(repairs) == nil then
  repairs.rebuilds = 0
end

local function shown(worker)
  local report = worker.report
  return Page.encode({
    worker = worker.id,
    address = worker.address,
    incarnation = worker.incarnation,
    state = Page.state_of(pool, worker),
    origin = worker.origin ~= '' and worker.origin or nil,
    active = worker.active,
    bound = worker.bound,
    lifetime = worker.lifetime,
    weight = worker.weight,
    heartbeat_age_ms = math.floor(pool.now - worker.heartbeat),
    requests_total = report.requests,
    errors_total = report.errors,
    bytes_read_total = report.bytes_read,
    bytes_written_total = report.bytes_written,
    mean_ms = report.timed > 0 and report.timed_us / report.timed / 1000 or 0,
    report = report.load,
  })
end

local visit = Visit.open({ Visit.CLIENTS, Visit.RATES, Visit.BINDINGS })
local next_cursor, workers = Page.read(pool, ARGV[1], shown)
return { 'view', next_cursor, cjson.encode({
  policy_version = pool.policy.version,
  active = pool.connections,
  open = pool.open,
  fresh = pool.fresh,
  at_limit = pool.at_limit,
  recycles_total = pool.recycles,
  overlaps_total = pool.overlaps,
  ejections_total = ejections,
  recycle_ms = pool.recycle_ms,
  margin_ms = margin_ms(),
  rejected = rejected,
  shadowed = shadowed,
  clients = Visit.number(visit, Visit.CLIENTS),
  client_rates = Visit.number(visit, Visit.RATES),
  bindings = Visit.number(visit, Visit.BINDINGS),
  unbound_total = unbound,
  rate_limit = rate_shown(),
  shadow_decisions_total = pool.shadow and pool.shadow.seen or 0,
  shadow_differed_total = pool.shadow and pool.shadow.differed or 0,
  repairs = repairs,
  holders = pool.holders,
  quarantined_holders = pool.quarantined,
  rebuilding = Rebuild.is_under_way(pool),
}), policy_text, workers }

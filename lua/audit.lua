-- audit: counts everything anew from the leases alone, and tells how far the kept figures are off.
--
-- KEYS     the pool's keys (lib/keys.lua), then every holder's
-- ARGV     none
-- Returns  audited, as JSON: leases, workers, holders, and the drift of each figure
--          again           holders have come or gone, or workers are to be swept first
--          unknown_pool    the pool has no policy
-- Uses     Former Holder Lease Page Pool Visit Worker
-- Keeps    nothing: it only reads
-- Cost     O(leases + workers): not for large pools in service

local pool = Pool.look()
if not pool then
  return { 'unknown_pool' }
end
if not Page.are_all_holders(KEYS) or Page.due(pool) > 0 then
  return { 'again' }
end

local drift = { connections = 0, active = 0, open = 0, at_limit = 0, index = 0, heartbeats = 0,
  ejected = 0, holders = 0, held = 0, bound = 0, clients = 0, bindings = 0 }

local function compare(figure, kept, counted)
  drift[figure] = drift[figure] + math.abs(kept - counted)
end

local function truth(value)
  return value and 1 or 0
end

-- The leases of each life of each worker, and of each holder.
local lives, bound, clients, leases, holders, quarantined = {}, {}, {}, 0, 0, 0

local function count_lease(parts, holder, number, text)
  local lease = Lease.unpack(text)
  local life = lease.worker .. '\n' .. lease.birth
  lives[life] = (lives[life] or 0) + 1
  bound[life] = (bound[life] or 0) + lease.bound
  if lease.client ~= '' then
    clients[lease.client] = (clients[lease.client] or 0) + 1
  end
  leases = leases + 1
  local beat = Holder.beat_of(number)
  local part = beat < holder.beat and 'settled' or beat
  parts[part] = parts[part] or Holder.new_part(beat)
  Holder.add(parts[part], number, 1)
end

local function compare_part(kept, counted)
  if kept.count ~= counted.count or kept.digest ~= counted.digest then
    compare('held', kept.count, counted.count)
    drift.held = drift.held + truth(kept.count == counted.count)
  end
end

local function count_holder(key)
  local stored = redis.call('HGETALL', key)
  local texts, parts, head = {}, { settled = Holder.new_part() }, nil
  for i = 1, #stored, 2 do
    if stored[i] == 'head' then
      head = Holder.unpack(stored[i + 1])
    elseif stored[i] ~= 'asking' then
      texts[stored[i]] = stored[i + 1]
    end
  end
  if not head then
    drift.holders = drift.holders + 1
    return
  end
  for number, text in pairs(texts) do
    count_lease(parts, head, number, text)
  end
  compare_part(head.settled, parts.settled)
  parts.settled = nil
  for _, kept in ipairs(head.young) do
    compare_part(kept, parts[kept.beat] or Holder.new_part())
    parts[kept.beat] = nil
  end
  for _, counted in pairs(parts) do
    compare_part(Holder.new_part(), counted)
  end
  holders = holders + truth(head.reclaimed_at == 0)
  quarantined = quarantined + head.quarantined
end

for i = Keys.FIRST_HOLDER, #KEYS do
  count_holder(KEYS[i])
end

local ids = Page.all_ids()
local open, at_limit, ranked = 0, 0, { 0, 0, 0 }

local function count_life(id, life)
  local name = id .. '\n' .. life.birth
  compare('active', life.active, lives[name] or 0)
  compare('bound', life.bound or 0, bound[name] or 0)
  lives[name] = nil
end

local function compare_index(worker, eligible)
  for kind = 1, 3 do
    local score = worker.scores[kind]
    local is_ranked = score ~= Worker.UNRANKED
    local stored = redis.call('ZSCORE', Keys.index[kind], worker.prefix .. worker.id)
    local right = is_ranked == (stored and true or false) and (eligible or not is_ranked)
      and (not is_ranked or tonumber(stored) == score)
    drift.index = drift.index + truth(not right)
    ranked[kind] = ranked[kind] + truth(is_ranked)
  end
  -- A strategy may keep someone out of one kind's index, and one of them out of all.
  local missing = eligible and pool.policy.strategy ~= 'score' and worker.scores[1] == Worker.UNRANKED
  drift.index = drift.index + truth(missing)
end

local function count_worker(worker)
  local fresh = worker.state ~= Worker.REMOVED and Worker.is_fresh(pool, worker)
  local is_open = Worker.is_open(pool, worker)
  local is_at_limit = worker.state == Worker.RECYCLING and Worker.is_fresh(pool, worker)
  compare('open', worker.open, truth(is_open))
  compare('at_limit', worker.at_limit, truth(is_at_limit))
  open, at_limit = open + truth(is_open), at_limit + truth(is_at_limit)
  local eligible = is_open and Worker.has_room(pool, worker)
  compare('index', worker.eligible, truth(eligible))
  compare_index(worker, eligible)
  local beaten = redis.call('ZSCORE', Keys.heartbeats, worker.id)
  local absent = redis.call('ZSCORE', Keys.absent, worker.id)
  local right = fresh == (beaten and true or false) and fresh == not absent
    and (not fresh or tonumber(beaten) == worker.heartbeat)
  drift.heartbeats = drift.heartbeats + truth(not right)
  local exiled = redis.call('ZSCORE', Keys.ejected, worker.id)
  compare('ejected', truth(exiled), truth(worker.ejected_until > 0))
  count_life(worker.id, worker)
  for _, life in ipairs(Former.lives(worker.id)) do
    count_life(worker.id, life)
  end
end

for _, id in ipairs(ids) do
  count_worker(Worker.read(pool, id))
end
for _, count in pairs(lives) do
  drift.active = drift.active + count -- of workers that nobody knows
end
for kind = 1, 3 do
  compare('index', redis.call('ZCARD', Keys.index[kind]), ranked[kind])
end
compare('heartbeats', Worker.count(), #ids)
compare('heartbeats', pool.fresh, redis.call('ZCARD', Keys.heartbeats))
local kept, told_apart, rates, bindings = redis.call('HGETALL', Keys.keys), 0, 0, 0
for i = 1, #kept, 2 do
  local client = kept[i]:match('^' .. Visit.CLIENT .. '(.*)$')
  if client then
    compare('clients', tonumber(kept[i + 1]), clients[client] or 0)
    clients[client], told_apart = nil, told_apart + 1
  end
  rates = rates + truth(kept[i]:find('^' .. Visit.RATE))
  bindings = bindings + truth(kept[i]:find('^' .. Visit.AFFINITY))
end
for _, count in pairs(clients) do
  drift.clients = drift.clients + count
end
local visit = Visit.open({ Visit.CLIENTS, Visit.RATES, Visit.BINDINGS })
compare('clients', Visit.number(visit, Visit.CLIENTS), told_apart)
compare('clients', Visit.number(visit, Visit.RATES), rates)
compare('clients', redis.call('ZCARD', Keys.rate_expiry), rates)
compare('bindings', Visit.number(visit, Visit.BINDINGS), bindings)
compare('bindings', redis.call('ZCARD', Keys.affinity_expiry), bindings)
compare('open', pool.open, open)
compare('at_limit', pool.at_limit, at_limit)
compare('connections', pool.connections, leases)
compare('holders', pool.holders, holders)
compare('holders', pool.quarantined, quarantined)
return { 'audited', cjson.encode({ leases = leases, workers = #ids, holders = holders, drift = drift }) }

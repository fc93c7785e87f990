-- A second strategy that runs beside the pool's own, sees all that happens and decides nothing. It has
-- its own indexes, dice and memory of the workers: `Shadow.within` puts these in the place of the
-- live ones for as long as one function runs, so that a strategy need not know in which world it is.

local Shadow = {}

-- dice, fired; how many decisions it saw, and of how many it would have chosen otherwise
local HEAD = '>dddd'
-- scores, clock, eligible, prefix, inputs
local FACE = '>ddddBBc0Bc0'

-- The pool's shadow, with its fields of Keys.live, as far as there are any.
function Shadow.open(pool, head, shared)
  local shadow = { strategy = Strategies[pool.policy.shadow_strategy], dice = 0, fired = 0, seen = 0,
    differed = 0, levels = false, levels_field = 'shadow_levels', shared = shared, ledger = false }
  if head then
    shadow.dice, shadow.fired, shadow.seen, shadow.differed = struct.unpack(HEAD, head)
  else
    shadow.dice, shadow.fired, shadow.seen, shadow.differed = 1 + pool.dice % 2147483000, 0, 0, 0
  end
  return shadow
end

-- What Pool.save is to write: put(name, value).
function Shadow.store(pool, put)
  local shadow = pool.shadow
  local head = struct.pack(HEAD, shadow.dice, shadow.fired, shadow.seen, shadow.differed)
  local shared
  Shadow.within(pool, nil, function()
    shared = pool.strategy.shared and pool.strategy.shared(pool)
  end)
  put('shadow_head', head)
  if shared then
    put('shadow_shared', shared)
  end
end

local function face_of(worker)
  local text = worker.face_text
  if not text then
    return { scores = Worker.unranked(), clock = 0, eligible = 0, prefix = '', inputs = '', conduct = false,
      load = false }
  end
  local scores = { 0, 0, 0 }
  local face = { scores = scores, clock = 0, eligible = 0, prefix = '', inputs = '', conduct = false,
    load = false }
  scores[1], scores[2], scores[3], face.clock, face.eligible, face.prefix, face.inputs =
    struct.unpack(FACE, text)
  return face
end

-- What it keeps of the worker.
function Shadow.pack_face(worker)
  local face = worker.face
  return struct.pack(FACE, face.scores[1], face.scores[2],
    face.scores[3], face.clock, face.eligible, #face.prefix, face.prefix, #face.inputs, face.inputs)
end

local POOL_FIELDS = { 'strategy', 'dice', 'fired', 'levels', 'levels_field', 'shared', 'ledger' }
local WORKER_FIELDS = { 'scores', 'clock', 'eligible', 'prefix', 'inputs', 'conduct', 'load' }

local function swap(one, other, fields)
  for _, field in ipairs(fields) do
    one[field], other[field] = other[field], one[field]
  end
end

local function turn(pool, worker)
  swap(pool, pool.shadow, POOL_FIELDS)
  Keys.index, Keys.shadow_index = Keys.shadow_index, Keys.index
  if worker then
    swap(worker, worker.face, WORKER_FIELDS)
  end
end

-- Runs act(pool, worker) in the other world.
function Shadow.within(pool, worker, act)
  if worker and not worker.face then
    worker.face = face_of(worker)
  end
  turn(pool, worker)
  act(pool, worker)
  turn(pool, worker)
end

-- An event of the worker, for both strategies.
function Shadow.tell(pool, event, worker, ...)
  pool.strategy[event](pool, worker, ...)
  if pool.shadow then
    local told = { ... }
    Shadow.within(pool, worker, function()
      pool.strategy[event](pool, worker, unpack(told))
    end)
  end
end

-- The same of a lease: the strategies may tell requests apart in different ways.
function Shadow.tell_of(pool, event, worker, lease, about)
  pool.strategy[event](pool, worker, lease, about)
  if pool.shadow then
    lease.kind, lease.shadow_kind = lease.shadow_kind, lease.kind
    Shadow.within(pool, worker, function()
      pool.strategy[event](pool, worker, lease, about)
    end)
    lease.kind, lease.shadow_kind = lease.shadow_kind, lease.kind
  end
end

-- The worker was chosen by the live strategy. One that draws hears of its own draws only.
function Shadow.taken(pool, worker, kind)
  if not pool.shadow.strategy.draws then
    Shadow.within(pool, worker, function()
      pool.strategy.taken(pool, worker, kind)
    end)
  end
end

function Shadow.reweigh(pool, worker, weight)
  local former
  if pool.shadow then
    Shadow.within(pool, worker, function()
      former = pool.strategy.pace(worker)
    end)
  end
  Dice.reweigh(pool, worker, weight)
  if pool.shadow then
    Shadow.within(pool, worker, function()
      Dice.repace(pool, worker, former)
    end)
  end
end

-- Nothing that it kept is of use to another strategy.
function Shadow.clear(pool, ids)
  redis.call('UNLINK', Keys.shadow_index[1], Keys.shadow_index[2], Keys.shadow_index[3])
  redis.call('HDEL', Keys.pool, 'shadow_levels')
  redis.call('HDEL', Keys.live, 'shadow_head', 'shadow_shared')
  for _, id in ipairs(ids) do
    redis.call('HDEL', Keys.live, Worker.SHADOW .. id)
  end
  pool.shadow = pool.policy.shadow_strategy and Shadow.open(pool, nil, nil) or false
end

-- What it would have chosen, and the kind of request that this is to it. One that draws has drawn; `rank(pool,
-- worker)` gives the worker its place.
function Shadow.choose(pool, request, rank)
  local shadow, kind, chosen = pool.shadow, nil, nil
  Shadow.within(pool, nil, function()
    kind = pool.strategy.kind_of(pool, request)
    local member = pool.strategy.choose(pool, kind)
    chosen = member and member:sub(pool.strategy.prefix_bytes + 1)
  end)
  if chosen and shadow.strategy.draws then
    local drawn = Worker.read(pool, chosen)
    Shadow.within(pool, drawn, function()
      pool.strategy.taken(pool, drawn, kind)
    end)
    Shadow.within(pool, drawn, rank)
    Worker.note_change(pool, drawn)
  end
  return chosen, kind
end

-- The live strategy has chosen this worker.
function Shadow.compare(pool, chosen, worker)
  local shadow = pool.shadow
  shadow.seen = shadow.seen + 1
  shadow.differed = shadow.differed + (chosen == worker.id and 0 or 1)
end

return Shadow

-- Requests with the same key go to the same worker. A binding names one life of a worker, and ends
-- when nobody used it for a while.

local Affinity = {}

-- The life's birth, when the binding ends, worker.
local BINDING = '>ddBc0'

-- A binding is written anew when this part of its time is gone, not at every use; so long it lasts more.
local EXTEND_AFTER = 1 / 8

-- Adds the fields that a decision about this key needs.
function Affinity.add_fields(key, fields)
  if key ~= '' then
    local last = #fields
    fields[last + 1], fields[last + 2] = Visit.BINDINGS, Visit.BINDINGS_DUE
    fields[last + 3] = Visit.AFFINITY .. key
  end
end

local function open(key)
  local fields = {}
  Affinity.add_fields(key, fields)
  return Visit.open(fields)
end

local function read(pool, visit, key)
  local text = visit.texts[Visit.AFFINITY .. key]
  if not text then
    return nil
  end
  local birth, ends_at, worker = struct.unpack(BINDING, text)
  if ends_at <= pool.now then
    return nil
  end
  return { birth = birth, ends_at = ends_at, worker = worker }
end

local function write(pool, visit, key, worker)
  local ends_at = pool.now + pool.policy.affinity.ttl_ms * (1 + EXTEND_AFTER)
  Visit.put(visit, Visit.AFFINITY .. key, struct.pack(BINDING, worker.birth, ends_at, #worker.id, worker.id))
  if redis.call('ZADD', Keys.affinity_expiry, ends_at, key) == 1 then
    Visit.put_number(visit, Visit.BINDINGS, Visit.number(visit, Visit.BINDINGS) + 1)
  end
  Visit.due_by(visit, Visit.BINDINGS_DUE, ends_at)
end

local function forget_some(pool, visit)
  if not Visit.is_due(visit, Visit.BINDINGS_DUE, pool.now) then
    return
  end
  local names, due = Visit.over(Keys.affinity_expiry, pool.now)
  if #names > 0 then
    redis.call('ZREM', Keys.affinity_expiry, unpack(names))
    Visit.forget(Visit.AFFINITY, names)
    Visit.put_number(visit, Visit.BINDINGS, Visit.number(visit, Visit.BINDINGS) - #names)
  end
  Visit.put_number(visit, Visit.BINDINGS_DUE, due)
  Visit.save(visit) -- also when the request is denied
end

local function has_room(pool, visit, key)
  forget_some(pool, visit)
  if Visit.number(visit, Visit.BINDINGS) < pool.policy.affinity.keys_max
    or redis.call('HEXISTS', Keys.keys, Visit.AFFINITY .. key) == 1 then
    return true
  end
  redis.call('HINCRBY', Keys.pool, 'unbound', '1')
  return false
end

local function bind(pool, visit, key, worker)
  local room = has_room(pool, visit, key)
  if room then
    write(pool, visit, key, worker)
  end
  return room
end

-- Returns false when as many are bound as may be.
function Affinity.bind(pool, key, worker)
  local visit = open(key)
  local room = bind(pool, visit, key, worker)
  Visit.save(visit)
  return room
end

-- The lease that is over was the key's last. A release that comes again, or late, leaves alone what was
-- bound since.
function Affinity.unbind(pool, key, lease)
  local binding = read(pool, open(key), key)
  if binding and binding.worker == lease.worker and binding.birth == lease.birth then
    redis.call('HDEL', Keys.keys, Visit.AFFINITY .. key)
    redis.call('ZREM', Keys.affinity_expiry, key)
    redis.call('HINCRBY', Keys.keys, Visit.BINDINGS, '-1')
  end
end

-- The bound worker, in the life that it was bound in, if it can be reached.
local function worker_of(pool, binding)
  local worker = Worker.read(pool, binding.worker)
  if worker and worker.birth == binding.birth and worker.ejected_until == 0
    and worker.state ~= Worker.REMOVED and Worker.is_fresh(pool, worker) then
    return worker
  end
end

-- Of a request that has no key.
Affinity.NONE = { bind = false }

-- What a request's key says: the worker it must go to; the one it should go to; or that the one it
-- must go to is lost. And whether its key is to be bound to the worker that is chosen.
function Affinity.of(pool, visit, key, binds)
  if key == '' then
    return Affinity.NONE
  end
  local affinity = { bind = binds }
  local required = pool.policy.affinity.mode == 'require'
  local binding = read(pool, visit, key)
  if not binding then
    -- What must not go elsewhere is not let in when it could not be followed.
    affinity.lost = required and not (binds and has_room(pool, visit, key))
    return affinity
  end
  local worker = worker_of(pool, binding)
  if required then
    affinity.required, affinity.lost = worker, not worker
  else
    affinity.preferred = worker
  end
  local ttl = pool.policy.affinity.ttl_ms
  affinity.extend = worker and binding.ends_at - pool.now < ttl
  affinity.bind = not worker and not affinity.lost
  affinity.bound_to = binding.worker
  return affinity
end

-- The request goes to this worker.
function Affinity.follow(pool, visit, affinity, key, worker)
  if affinity.bound_to and affinity.bound_to ~= worker.id then
    affinity.bind = true -- the one it should go to had no room
  end
  if affinity.bind then
    bind(pool, visit, key, worker)
  elseif affinity.extend then
    write(pool, visit, key, worker)
  end
end

return Affinity

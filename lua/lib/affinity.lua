-- Requests with the same key go to the same worker. A binding names one life of a worker, and ends
-- when nobody used it for a while.

local Affinity = {}

-- The life's birth, when the binding ends, worker.
local BINDING = '>ddBc0'

-- How many that are over are forgotten for each new one.
local FORGET_MAX = 8

-- A binding is written anew when this part of its time is gone, not at every use; so long it lasts more.
local EXTEND_AFTER = 1 / 8

local function read(pool, key)
  local text = redis.call('HGET', Keys.affinity, key)
  if not text then
    return nil
  end
  local birth, ends_at, worker = struct.unpack(BINDING, text)
  if ends_at <= pool.now then
    return nil
  end
  return { birth = birth, ends_at = ends_at, worker = worker }
end

local function write(pool, key, worker)
  local ends_at = pool.now + pool.policy.affinity.ttl_ms * (1 + EXTEND_AFTER)
  redis.call('HSET', Keys.affinity, key, struct.pack(BINDING, worker.birth, ends_at, #worker.id, worker.id))
  redis.call('ZADD', Keys.affinity_expiry, ends_at, key)
end

local function forget_some(pool)
  local over = redis.call('ZRANGE', Keys.affinity_expiry, '-inf', pool.now, 'BYSCORE', 'LIMIT', 0, FORGET_MAX)
  if #over > 0 then
    redis.call('ZREM', Keys.affinity_expiry, unpack(over))
    redis.call('HDEL', Keys.affinity, unpack(over))
  end
end

local function has_room(pool, key)
  forget_some(pool)
  if redis.call('HLEN', Keys.affinity) < pool.policy.affinity.keys_max
    or redis.call('HEXISTS', Keys.affinity, key) == 1 then
    return true
  end
  redis.call('HINCRBY', Keys.pool, 'unbound', 1)
  return false
end

-- Returns false when as many are bound as may be.
function Affinity.bind(pool, key, worker)
  local room = has_room(pool, key)
  if room then
    write(pool, key, worker)
  end
  return room
end

-- The lease that is over was the key's last. A release that comes again, or late, leaves alone what was
-- bound since.
function Affinity.unbind(pool, key, lease)
  local binding = read(pool, key)
  if binding and binding.worker == lease.worker and binding.birth == lease.birth then
    redis.call('HDEL', Keys.affinity, key)
    redis.call('ZREM', Keys.affinity_expiry, key)
  end
end

-- The bound worker, in the life that it was bound in, if it can be reached.
local function worker_of(pool, binding)
  local worker = Worker.read(binding.worker)
  if worker and worker.birth == binding.birth and worker.ejected_until == 0
    and worker.state ~= Worker.REMOVED and Worker.is_fresh(pool, worker) then
    return worker
  end
end

-- What a request's key says: the worker it must go to; the one it should go to; or that the one it
-- must go to is lost. And whether its key is to be bound to the worker that is chosen.
function Affinity.of(pool, key, bind)
  local affinity = { bind = bind }
  if key == '' then
    affinity.bind = false
    return affinity
  end
  local required = pool.policy.affinity.mode == 'require'
  local binding = read(pool, key)
  if not binding then
    -- What must not go elsewhere is not let in when it could not be followed.
    affinity.lost = required and not (bind and has_room(pool, key))
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
function Affinity.follow(pool, affinity, key, worker)
  if affinity.bound_to and affinity.bound_to ~= worker.id then
    affinity.bind = true -- the one it should go to had no room
  end
  if affinity.bind then
    Affinity.bind(pool, key, worker)
  elseif affinity.extend then
    write(pool, key, worker)
  end
end

return Affinity

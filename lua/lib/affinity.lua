-- Requests with the same key go to the same worker. A binding names one life of a worker, and ends
-- when nobody used it for a while.

local Affinity = {}

-- The life's birth, when the binding ends, worker.
local BINDING = '>ddBc0'

-- How many that are over are forgotten for each new one.
local FORGET_MAX = 8

-- A binding is written anew when this part of its time is gone, not at every use.
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
  local ends_at = pool.now + pool.policy.affinity.ttl_ms
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

-- Returns false when as many are bound as may be.
function Affinity.bind(pool, key, worker)
  forget_some(pool)
  if redis.call('HLEN', Keys.affinity) >= pool.policy.affinity.keys_max
    and redis.call('HEXISTS', Keys.affinity, key) == 0 then
    redis.call('HINCRBY', Keys.pool, 'unbound', 1)
    return false
  end
  write(pool, key, worker)
  return true
end

function Affinity.unbind(key)
  redis.call('HDEL', Keys.affinity, key)
  redis.call('ZREM', Keys.affinity_expiry, key)
end

-- The bound worker, in the life that it was bound in, if it can be reached.
local function worker_of(pool, binding)
  local worker = Worker.read(binding.worker)
  if worker and worker.birth == binding.birth and worker.ejected_until == 0
    and Worker.is_fresh(pool, worker) then
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
    affinity.lost = required and not bind
    return affinity
  end
  local worker = worker_of(pool, binding)
  if required then
    affinity.required, affinity.lost = worker, not worker
  else
    affinity.preferred = worker
  end
  local ttl = pool.policy.affinity.ttl_ms
  affinity.extend = worker and binding.ends_at - pool.now < ttl * (1 - EXTEND_AFTER)
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

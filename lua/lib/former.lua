-- The lives a worker had before its present one. A late registration, or two processes with one id,
-- may bring an earlier incarnation back: its leases must still count then, and its lifetime.

-- More lives than this with leases at once are a mistake; the oldest is forgotten.
local FORMER_MAX = 4

local function read_former(id)
  local text = redis.call('HGET', FORMER, id)
  return text and cmsgpack.unpack(text) or {}
end

local function write_former(id, lives)
  redis.call('HSET', FORMER, id, cmsgpack.pack(lives))
end

-- Another incarnation takes the worker's place.
local function retire_life(worker)
  local lives = read_former(worker.id)
  table.insert(lives, 1, { incarnation = worker.incarnation, birth = worker.birth,
    active = worker.active, lifetime = worker.lifetime, state = worker.state,
    limit_at = worker.limit_at })
  lives[FORMER_MAX + 1] = nil
  write_former(worker.id, lives)
end

-- Returns the life with this incarnation, which is a former one no more, or nil.
local function recall_life(id, incarnation)
  local lives = read_former(id)
  for i, life in ipairs(lives) do
    if life.incarnation == incarnation then
      table.remove(lives, i)
      write_former(id, lives)
      return life
    end
  end
end

-- A life that was seen before goes on where it was; any other starts from nothing.
local function begin_life(pool, worker, incarnation)
  local life = recall_life(worker.id, incarnation)
  if not life then
    pool.births = pool.births + 1
    life = { birth = pool.births, active = 0, lifetime = 0, state = AVAILABLE, limit_at = 0 }
  end
  worker.incarnation, worker.birth = incarnation, life.birth
  worker.active, worker.lifetime = life.active, life.lifetime
  worker.state, worker.limit_at = life.state, life.limit_at
  worker.ejections, worker.ejected_at, worker.ejected_until = 0, 0, 0
  redis.call('ZREM', EJECTED, worker.id)
end

-- Gives back a lease that was taken on a former life.
local function give_back_to_former(lease, used)
  local lives = read_former(lease.worker)
  for _, life in ipairs(lives) do
    if life.birth == lease.birth then
      life.active = life.active - 1
      life.lifetime = life.lifetime - (used and 0 or 1)
      write_former(lease.worker, lives)
      return
    end
  end
end

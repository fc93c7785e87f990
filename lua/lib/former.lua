-- The lives a worker had before its present one. A late registration, or two processes with one id,
-- may bring an earlier incarnation back: its leases must still count then, and its lifetime.

local Former = {}

-- Lives without leases beyond this are forgotten, the oldest first.
local FORMER_MAX = 4

-- The youngest first.
function Former.lives(id)
  local text = redis.call('HGET', Keys.former, id)
  return text and cmsgpack.unpack(text) or {}
end

local function write_former(id, lives)
  redis.call('HSET', Keys.former, id, cmsgpack.pack(lives))
end

-- Who has leases must be remembered, however often the worker restarts.
local function forget_oldest(lives)
  for i = #lives, 1, -1 do
    if #lives > FORMER_MAX and lives[i].active == 0 then
      table.remove(lives, i)
    end
  end
end

function Former.has_leases(id)
  for _, life in ipairs(Former.lives(id)) do
    if life.active > 0 then
      return true
    end
  end
  return false
end

-- Another incarnation takes the worker's place.
function Former.retire(worker)
  local lives = Former.lives(worker.id)
  table.insert(lives, 1, { incarnation = worker.incarnation, birth = worker.birth,
    active = worker.active, lifetime = worker.lifetime, state = worker.state,
    limit_at = worker.limit_at, bound = worker.bound })
  forget_oldest(lives)
  write_former(worker.id, lives)
end

-- Returns the life with this incarnation, which is a former one no more, or nil.
local function recall_life(id, incarnation)
  local lives = Former.lives(id)
  for i, life in ipairs(lives) do
    if life.incarnation == incarnation then
      table.remove(lives, i)
      write_former(id, lives)
      return life
    end
  end
end

-- A life that was seen before goes on where it was; any other starts from nothing.
function Former.begin(pool, worker, incarnation)
  local life = recall_life(worker.id, incarnation)
  if not life then
    pool.births, pool.rest = pool.births + 1, false
    life = { birth = pool.births, active = 0, lifetime = 0, state = Worker.AVAILABLE, limit_at = 0 }
  end
  worker.incarnation, worker.birth, worker.rest = incarnation, life.birth, false
  worker.active, worker.lifetime, worker.bound = life.active, life.lifetime, life.bound or 0
  worker.state, worker.limit_at = life.state, life.limit_at
  worker.previous, worker.sessions = 0, Worker.UNTOLD
  worker.ejections, worker.ejected_at, worker.ejected_until = 0, 0, 0
  redis.call('ZREM', Keys.ejected, worker.id)
  Shadow.tell(pool, 'born', worker)
end

-- A lease of a life that is not the present one, and perhaps was never known. Returns that life.
function Former.reassert(pool, id, incarnation, lifetime)
  local lives, found = Former.lives(id), nil
  for _, life in ipairs(lives) do
    if life.incarnation == incarnation then
      found = life
    end
  end
  if not found then
    pool.births, pool.rest = pool.births + 1, false
    found = { incarnation = incarnation, birth = pool.births, active = 0, lifetime = 0,
      state = Worker.AVAILABLE, limit_at = 0 }
    table.insert(lives, 1, found)
  end
  found.active = found.active + 1
  found.lifetime = math.max(found.lifetime, lifetime)
  if found.state == Worker.AVAILABLE and Worker.at_its_limit(pool, found) then
    Worker.reach_limit(pool, found)
  end
  forget_oldest(lives)
  write_former(id, lives)
  return found
end

-- Whose lease it is: the incarnation with this birth, or nil.
function Former.incarnation_of(id, birth)
  for _, life in ipairs(Former.lives(id)) do
    if life.birth == birth then
      return life.incarnation
    end
  end
end

-- Gives back a lease that was taken on a former life.
function Former.give_back(lease, used)
  local lives = Former.lives(lease.worker)
  for _, life in ipairs(lives) do
    if life.birth == lease.birth then
      life.active = math.max(0, life.active - 1)
      life.bound = (life.bound or 0) - lease.bound
      life.lifetime = math.max(0, life.lifetime - (used and 0 or 1))
      write_former(lease.worker, lives)
      return
    end
  end
end

return Former

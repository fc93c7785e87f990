-- Workers as people see them, a page at a time.

local Page = {}

local PAGE = 200
-- A worker has two fields, or three.
local FIELDS = 2 * PAGE

local STATE = { [Worker.AVAILABLE] = 'available', [Worker.DRAINING] = 'draining',
  [Worker.RECYCLING] = 'recycling', [Worker.REMOVED] = 'removed' }

function Page.state_of(pool, worker)
  if worker.state ~= Worker.REMOVED and not Worker.is_fresh(pool, worker) then
    return 'absent'
  elseif worker.state == Worker.AVAILABLE and worker.ejected_until > 0 then
    return 'ejected'
  end
  return STATE[worker.state]
end

-- cjson writes an empty table as an object and cannot write infinity.
function Page.encode(shown)
  local text = cjson.encode(shown)
  return (text:gsub('"gates":{}', '"gates":[]'))
end

-- The names of all workers.
function Page.all_ids()
  local ids = {}
  for _, field in ipairs(redis.call('HKEYS', Keys.live)) do
    ids[#ids + 1] = field:match('^' .. Worker.RECORD .. '(.*)$')
  end
  return ids
end

-- Returns the next cursor, and the workers that are not out of sight as a JSON list; each is written
-- by `encode(worker)`.
function Page.read(pool, cursor, encode)
  local page = redis.call('HSCAN', Keys.live, cursor, 'COUNT', FIELDS, 'MATCH', Worker.RECORD .. '*')
  local workers = {}
  for i = 1, #page[2], 2 do
    local worker = Worker.read_with_report(pool, page[2][i]:sub(#Worker.RECORD + 1))
    if worker.state ~= Worker.REMOVED or worker.active > 0 then
      workers[#workers + 1] = encode(worker)
    end
  end
  return page[1], '[' .. table.concat(workers, ',') .. ']'
end

-- A part of one holder's leases: `visit(number, text)` for each. Returns the next cursor.
function Page.of_holder(key, cursor, visit)
  local page = redis.call('HSCAN', key, cursor, 'COUNT', PAGE)
  for i = 1, #page[2], 2 do
    if tonumber(page[2][i]) then -- else the head
      visit(page[2][i], page[2][i + 1])
    end
  end
  return page[1]
end

-- A part of the pool's holders: the next cursor, and their epochs.
function Page.of_holders(cursor)
  local page = redis.call('ZSCAN', Keys.holders, cursor, 'COUNT', PAGE)
  local epochs = {}
  for i = 1, #page[2], 2 do
    epochs[#epochs + 1] = page[2][i]
  end
  return page[1], epochs
end

-- Whether the keys name every holder of the pool and no other.
function Page.are_all_holders(keys)
  local named = {}
  for i = Keys.FIRST_HOLDER, #keys do
    named[keys[i]:match('[^:]+$')] = true
  end
  local epochs = redis.call('ZRANGE', Keys.holders, 0, -1)
  for _, epoch in ipairs(epochs) do
    if not named[epoch] then
      return false
    end
  end
  return #epochs == #keys - Keys.FIRST_HOLDER + 1
end

-- How many workers the passing of time has moved, without anyone having noticed yet.
function Page.due(pool)
  local oldest = '(' .. string.format('%.17g', pool.now - pool.policy.heartbeat_ttl_ms)
  return redis.call('ZCOUNT', Keys.heartbeats, '-inf', oldest)
    + redis.call('ZCOUNT', Keys.ejected, '-inf', pool.now)
end

return Page

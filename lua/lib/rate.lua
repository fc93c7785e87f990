-- How often something may happen. A limit keeps two numbers, `at` and `used`, in a table of the
-- caller's; asking changes nothing, so a denied request takes nothing.

local Rate = {}

local UNIT_MS = { ms = 1, s = 1000, min = 60000, h = 3600000, d = 86400000 }

-- Sums of times are off by less.
local EPSILON_MS = 1e-6

-- The limit of a policy's section, or nil when it has none.
function Rate.limit_of(section)
  if not section.rate then
    return nil
  end
  local count, times, unit = section.rate:match('^(%d+)/(%d*)(%a+)$')
  local period_ms = UNIT_MS[unit] * (tonumber(times) or 1)
  return { count = tonumber(count), period_ms = period_ms, interval_ms = period_ms / count,
    burst = section.burst, windowed = section.algorithm == 'fixed_window' }
end

-- Windows are those of the clock that people read.
local function window_of(pool, limit)
  return math.floor(pool.wall / limit.period_ms)
end

local function used_in(window, state)
  return state.at == window and state.used or 0
end

-- How long until one more is allowed; 0 for now.
function Rate.wait_ms(pool, limit, state)
  if limit.windowed then
    local window = window_of(pool, limit)
    if used_in(window, state) < limit.count then
      return 0
    end
    return (window + 1) * limit.period_ms - pool.wall
  end
  local early = state.at - pool.now - (limit.burst - 1) * limit.interval_ms
  return early > EPSILON_MS and early or 0
end

-- One more happens now.
function Rate.take(pool, limit, state)
  if limit.windowed then
    local window = window_of(pool, limit)
    state.at, state.used = window, used_in(window, state) + 1
  else
    state.at = math.max(state.at, pool.now) + limit.interval_ms
  end
end

-- The state of which nothing is kept. What the store has lost may have been all that was allowed.
function Rate.unknown(pool, limit)
  if pool.lost_at == 0 then
    return { at = 0, used = 0 }
  elseif limit.windowed then
    return { at = math.floor(pool.rebuild / limit.period_ms), used = limit.count }
  end
  return { at = pool.lost_at + limit.burst * limit.interval_ms, used = 0 }
end

-- The clock that this limit goes by.
function Rate.time(pool, limit)
  return limit.windowed and pool.wall or pool.now
end

-- From then on its state says no more than nothing does.
function Rate.over_at(limit, state)
  return limit.windowed and (state.at + 1) * limit.period_ms or state.at
end

function Rate.pack(state)
  return struct.pack('>dd', state.at, state.used)
end

function Rate.unpack(text)
  local at, used = struct.unpack('>dd', text)
  return { at = at, used = used, over = false }
end

return Rate

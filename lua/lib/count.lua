-- A count of the endpoint /redis/atomic: how many are held, and by whom. It belongs to no pool: its keys
-- are its own, and its time is Redis' own clock, because nobody looks after it between two calls.

local Count = {}

-- Holds what is held without an owner: that stays until it is given back.
Count.NOBODY = ''

-- Bounds a count's memory: so many owners take about 2 MB, and one more is refused.
Count.OWNERS_MAX = 10000

-- One script stays below a millisecond: what is left is swept by the next call.
local SWEEP_MAX = 256

-- `held ttl_ms`, text: an operator may want to read it.
local function read(record)
  local held, ttl_ms = string.match(record or '', '^(%d+) (%d+)$')
  return tonumber(held) or 0, tonumber(ttl_ms) or 0
end

local function save_total(count)
  if count.total > 0 then
    redis.call('SET', count.key, count.total, 'KEEPTTL')
  else
    redis.call('DEL', count.key)
  end
end

-- Takes back what owners hold that were not heard of in their time. Returns how many owners that were.
local function sweep(count)
  local late = redis.call('ZRANGE', count.deadlines, '-inf', count.now, 'BYSCORE', 'LIMIT', 0, SWEEP_MAX)
  if #late > 0 then
    for _, record in ipairs(redis.call('HMGET', count.owners, unpack(late))) do
      count.taken_back = count.taken_back + read(record)
    end
    redis.call('HDEL', count.owners, unpack(late))
    redis.call('ZREM', count.deadlines, unpack(late))
    count.total = count.total - count.taken_back
    save_total(count)
  end
  return #late
end

-- A count that nobody asks for again leaves nothing behind: if all of it has owners, its keys go when the
-- last owner's time is over. While anything is held without an owner, they stay.
local function lapse(count)
  local last = redis.call('ZRANGE', count.deadlines, 0, 0, 'REV', 'WITHSCORES')[2]
  local stays = redis.call('HEXISTS', count.owners, Count.NOBODY) == 1
  for _, key in ipairs({ count.key, count.owners, count.deadlines }) do
    if stays then
      redis.call('PERSIST', key)
    elseif last then
      redis.call('PEXPIREAT', key, last)
    end
  end
end

function Count.now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The count at this moment. Its keys come in the order of redis-sidecar/src/keys.rs. `swept` is false when
-- more is to be taken back than one script should do; then it is too high.
function Count.open(keys)
  local count = {
    key = keys[1],       -- STRING how many are held
    owners = keys[2],    -- HASH owner -> how many it holds, and its time in ms
    deadlines = keys[3], -- ZSET owner -> when what it holds is taken back
    now = Count.now_ms(),
    total = tonumber(redis.call('GET', keys[1]) or 0),
    taken_back = 0,
  }
  count.swept = sweep(count) < SWEEP_MAX
  return count
end

function Count.share(count, owner)
  local share = { owner = owner }
  share.held, share.ttl_ms = read(redis.call('HGET', count.owners, owner))
  return share
end

-- Whether there is no room for an owner that is not known yet.
function Count.is_crowded(count)
  return redis.call('HLEN', count.owners) >= Count.OWNERS_MAX
end

-- The total and an owner's share change together, here; with 0 the owner is only heard of.
function Count.change(count, share, by)
  share.held = share.held + by
  if share.held > 0 then
    redis.call('HSET', count.owners, share.owner, string.format('%.0f %.0f', share.held, share.ttl_ms))
    if share.owner ~= Count.NOBODY then
      redis.call('ZADD', count.deadlines, count.now + share.ttl_ms, share.owner)
    end
  else
    redis.call('HDEL', count.owners, share.owner)
    redis.call('ZREM', count.deadlines, share.owner)
  end
  count.total = count.total + by
  save_total(count)
  lapse(count)
end

return Count

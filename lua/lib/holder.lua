-- A holder's record: its head, and its leases. What is held is also kept as count and digest, so that a
-- beat compares any number of leases at once; both change with the leases, in Holder.put and Holder.drop.

local Holder = {}

-- A later version tells by this how a head is packed.
local FORMAT = 1
-- Format, beat; count and digest of the leases minted before it; presence, open, closed_at; beaten_at,
-- vouched_at; reclaimed_at, cause; quarantined, reported, proxy; how many young parts follow.
local HEAD = '>BdIIdBddddBBdBc0I'
-- Of the leases minted after one beat: beat, count, digest.
local YOUNG = '>dII'

-- A lease's number has the beat that it was minted after above its low 24 bits.
local BEAT_STEP = 2 ^ 24
local TWO_32 = 2 ^ 32
local SALT = 0x9e3779b9

-- It was never heard to beat.
Holder.UNHEARD = -1
-- A presence that ended may only have been cut: its holder has this long to say so.
Holder.GRACE_MS = 1500
-- How often a quarantined holder's workers are asked for what they serve.
local QUARANTINE_LOOK_MS = 1000
-- How long nothing is believed that is said in the name of a reclaimed holder.
local FORGET_MS = 86400000

function Holder.beat_of(number)
  return math.floor(tonumber(number) / BEAT_STEP)
end

-- The last part of the holder's key.
function Holder.epoch()
  return Keys.holder:match('[^:]+$')
end

-- A lease number, shuffled: the same as `mix` in admission/src/message/renew.rs.
local function mix(number)
  local low, high = number % TWO_32, math.floor(number / TWO_32)
  local mixed = bit.bxor(low, bit.rol(high, 16), SALT)
  mixed = bit.bxor(mixed, bit.lshift(mixed, 13))
  mixed = bit.bxor(mixed, bit.rshift(mixed, 17))
  mixed = bit.bxor(mixed, bit.lshift(mixed, 5))
  return mixed % TWO_32 -- bit operations answer with a sign
end

-- A lease more, or less, in count and digest.
function Holder.add(part, number, times)
  part.count = part.count + times
  part.digest = (part.digest + times * mix(tonumber(number))) % TWO_32
end

function Holder.new_part(beat)
  return { beat = beat, count = 0, digest = 0 }
end

function Holder.unpack(text)
  local holder = { known = true, settled = Holder.new_part() }
  local _, count, position
  _, holder.beat, holder.settled.count, holder.settled.digest, holder.presence, holder.open,
    holder.closed_at, holder.beaten_at, holder.vouched_at, holder.reclaimed_at, holder.cause,
    holder.quarantined, holder.reported, holder.proxy, count, position = struct.unpack(HEAD, text)
  holder.young = {}
  for i = 1, count do
    local part = {}
    part.beat, part.count, part.digest, position = struct.unpack(YOUNG, text, position)
    holder.young[i] = part
  end
  return holder
end

local function pack(holder)
  local text = { struct.pack(HEAD, FORMAT, holder.beat, holder.settled.count, holder.settled.digest,
    holder.presence, holder.open, holder.closed_at, holder.beaten_at, holder.vouched_at,
    holder.reclaimed_at, holder.cause, holder.quarantined, holder.reported, #holder.proxy,
    holder.proxy, #holder.young) }
  for _, part in ipairs(holder.young) do
    text[#text + 1] = struct.pack(YOUNG, part.beat, part.count, part.digest)
  end
  return table.concat(text)
end

local function unknown()
  return { known = false, beat = Holder.UNHEARD, settled = Holder.new_part(), young = {},
    presence = 0, open = 0, closed_at = 0, beaten_at = 0, vouched_at = 0, reclaimed_at = 0, cause = 0,
    quarantined = 0, reported = 0, proxy = '' }
end

-- The holder, with the leases of these numbers as far as it has them: one call for all.
function Holder.open(...)
  local found = redis.call('HMGET', Keys.holder, 'head', ...)
  local holder = found[1] and Holder.unpack(found[1]) or unknown()
  holder.leases, holder.puts, holder.drops = {}, {}, {}
  for i, number in ipairs({ ... }) do
    holder.leases[number] = found[i + 1] or nil
  end
  return holder
end

-- Makes it known. It is believed for one lease_ttl_ms from here, without a beat.
function Holder.note(pool, holder, proxy)
  holder.known, holder.changed = true, true
  holder.beaten_at, holder.proxy = pool.now, proxy
  pool.holders = pool.holders + 1
  Holder.look_later(pool, holder)
end

-- Which of its parts a lease belongs to.
local function part_of(holder, number)
  local beat = Holder.beat_of(number)
  if beat < holder.beat then
    return holder.settled
  end
  for _, part in ipairs(holder.young) do
    if part.beat == beat then
      return part
    end
  end
  local part = Holder.new_part(beat)
  holder.young[#holder.young + 1] = part
  return part
end

-- A lease that it did not have, or has, with another record.
function Holder.put(holder, number, text)
  if not holder.leases[number] then
    Holder.add(part_of(holder, number), number, 1)
    holder.changed = true
  end
  holder.leases[number] = text
  holder.puts[#holder.puts + 1] = number
  holder.puts[#holder.puts + 1] = text
end

function Holder.drop(holder, number)
  Holder.add(part_of(holder, number), number, -1)
  holder.changed = true
  holder.leases[number] = nil
  holder.drops[#holder.drops + 1] = number
  for i = #holder.young, 1, -1 do
    if holder.young[i].count == 0 then
      table.remove(holder.young, i)
    end
  end
end

-- Head and leases in one call, and one more if some are gone.
function Holder.save(holder)
  if holder.changed then
    holder.puts[#holder.puts + 1] = 'head'
    holder.puts[#holder.puts + 1] = pack(holder)
  end
  if #holder.puts > 0 then
    redis.call('HSET', Keys.holder, unpack(holder.puts))
  end
  if #holder.drops > 0 then
    redis.call('HDEL', Keys.holder, unpack(holder.drops))
  end
  holder.puts, holder.drops, holder.changed = {}, {}, false
end

-- How many leases it has.
function Holder.count(holder)
  local count = holder.settled.count
  for _, part in ipairs(holder.young) do
    count = count + part.count
  end
  return count
end

-- Whether the lease was on its way when the last beat was made: that beat has not spoken for it.
function Holder.was_asking(number)
  local asking = redis.call('HGET', Keys.holder, 'asking') or ''
  return asking:find(' ' .. number .. ' ', 1, true) ~= nil
end

-- A beat was heard. From now on it speaks for every lease minted before it.
function Holder.beat(pool, holder, beat, asking)
  local young = {}
  for _, part in ipairs(holder.young) do
    if part.beat < beat then
      holder.settled.count = holder.settled.count + part.count
      holder.settled.digest = (holder.settled.digest + part.digest) % TWO_32
    else
      young[#young + 1] = part
    end
  end
  if holder.reclaimed_at > 0 then
    pool.holders = pool.holders + 1
  end
  pool.quarantined = pool.quarantined - holder.quarantined
  holder.young, holder.beat, holder.beaten_at = young, beat, pool.now
  holder.reclaimed_at, holder.cause, holder.quarantined, holder.closed_at = 0, 0, 0, 0
  holder.changed = true
  holder.puts[#holder.puts + 1] = 'asking'
  holder.puts[#holder.puts + 1] = #asking > 0 and ' ' .. table.concat(asking, ' ') .. ' ' or ''
  Holder.look_later(pool, holder)
end

-- Whether it holds exactly this many leases with this digest, apart from those on their way.
function Holder.agrees(holder, count, digest, under_way)
  local rest = { count = holder.settled.count, digest = holder.settled.digest }
  local seen = {}
  for _, number in ipairs(under_way) do
    if holder.leases[number] and Holder.beat_of(number) < holder.beat and not seen[number] then
      seen[number] = true
      Holder.add(rest, number, -1)
    end
  end
  return rest.count == count and rest.digest == digest
end

-- What spoke against the end of a presence may be what was lost.
local function rebuild_began_lately(pool)
  return pool.rebuild_at > 0 and pool.now - pool.rebuild_at < Holder.GRACE_MS
end

-- What the passing of time has made of it: nil, 'quarantine', or why it is to be reclaimed.
function Holder.fate(pool, holder)
  local ttl = pool.policy.lease_ttl_ms
  if holder.closed_at > 0 then
    local over = pool.now - holder.closed_at >= Holder.GRACE_MS and not rebuild_began_lately(pool)
    return over and 'presence' or nil
  elseif pool.now - holder.beaten_at < ttl then
    return nil
  elseif holder.open == 1 and pool.now - holder.vouched_at < ttl then
    return 'quarantine'
  end
  return 'ttl'
end

-- When to look at it again. Whoever was taking its leases may have been stopped half-way.
function Holder.look_later(pool, holder)
  local at = holder.beaten_at + pool.policy.lease_ttl_ms
  if holder.reclaimed_at > 0 then
    at = Holder.count(holder) > 0 and pool.now or holder.reclaimed_at + FORGET_MS
  elseif holder.closed_at > 0 then
    at = holder.closed_at + Holder.GRACE_MS
  elseif holder.quarantined == 1 then
    at = pool.now + QUARANTINE_LOOK_MS
  end
  redis.call('ZADD', Keys.holders, at, Holder.epoch())
end

function Holder.quarantine(pool, holder)
  if holder.quarantined == 0 then
    holder.quarantined, holder.changed = 1, true
    pool.quarantined = pool.quarantined + 1
    Repair.count('quarantined', 1)
  end
end

Holder.CAUSES = { 'presence', 'ttl' }

-- Nothing that is said in its name counts any more; its leases are taken step by step.
function Holder.reclaim(pool, holder, cause)
  pool.holders = pool.holders - 1
  pool.quarantined = pool.quarantined - holder.quarantined
  holder.reclaimed_at, holder.cause = pool.now, cause == Holder.CAUSES[1] and 1 or 2
  holder.quarantined, holder.closed_at, holder.changed = 0, 0, true
  redis.call('ZREM', Keys.awaited, Holder.epoch())
end

function Holder.is_forgotten(pool, holder)
  return holder.reclaimed_at > 0 and pool.now - holder.reclaimed_at >= FORGET_MS
end

function Holder.forget()
  redis.call('DEL', Keys.holder)
  redis.call('ZREM', Keys.holders, Holder.epoch())
  redis.call('ZREM', Keys.awaited, Holder.epoch())
end

return Holder

-- A holder's record: its head, and its leases. What is held is also kept as count and digest, so that a
-- beat compares any number of leases at once; both change with the leases, in Holder.put and Holder.drop.

local Holder = {}

-- A later version tells by this how a head is packed.
local FORMAT = 1
-- Format, beat; count and digest of the leases minted before it.
local HEAD = '>BdII'
-- presence, open, closed_at; beaten_at, vouched_at; reclaimed_at, cause; quarantined, reported, proxy: no lease
-- changes these, so holder.state has the text of them between. Then, how many young parts follow.
local STATE = '>dBddddBBdBc0'
local YOUNG_COUNT = '>I'
-- Of the leases minted after one beat: beat, count, digest.
local YOUNG = '>dII'
local ONE_YOUNG = '>IdII'

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
  return (number - number % BEAT_STEP) / BEAT_STEP
end

-- The last part of the holder's key.
function Holder.epoch()
  return Keys.holder:match('[^:]+$')
end

-- A lease number, shuffled: the same as `mix` in admission/src/message/renew.rs.
local function mix(number)
  local low, bxor = number % TWO_32, bit.bxor
  local mixed = bxor(low, number == low and 0 or bit.rol((number - low) / TWO_32, 16), SALT)
  -- Bit operations take numbers modulo 2^32, so a shift to the left is a product.
  mixed = bxor(mixed, mixed * 2 ^ 13)
  mixed = bxor(mixed, bit.rshift(mixed, 17))
  mixed = bxor(mixed, mixed * 2 ^ 5)
  return mixed % TWO_32 -- bit operations answer with a sign
end

-- A lease more, or less, in count and digest.
function Holder.add(part, number, times)
  part.count = part.count + times
  part.digest = (part.digest + times * mix(number)) % TWO_32
end

function Holder.new_part(beat)
  return { beat = beat, count = 0, digest = 0 }
end

-- One of which nothing is known. Whole from the beginning, as in Pool: puts and drops are what Holder.save
-- writes and deletes, their counts how much of it is of this call.
local function unknown()
  return { known = false, beat = Holder.UNHEARD, settled = Holder.new_part(0), young = {},
    presence = 0, open = 0, closed_at = 0, beaten_at = 0, vouched_at = 0, reclaimed_at = 0, cause = 0,
    quarantined = 0, reported = 0, proxy = '', state = false, changed = false, counted = false, leases = false,
    kept_as = false, kept_by = 0,
    puts = {}, put_count = 0, drops = {}, drop_count = 0 }
end

function Holder.unpack(text)
  local holder = unknown()
  local _, count, position, state_at
  holder.known = true
  _, holder.beat, holder.settled.count, holder.settled.digest, state_at = struct.unpack(HEAD, text)
  holder.presence, holder.open, holder.closed_at, holder.beaten_at, holder.vouched_at,
    holder.reclaimed_at, holder.cause, holder.quarantined, holder.reported, holder.proxy,
    position = struct.unpack(STATE, text, state_at)
  holder.state = text:sub(state_at, position - 1)
  count, position = struct.unpack(YOUNG_COUNT, text, position)
  for i = 1, count do
    local part = Holder.new_part(0)
    part.beat, part.count, part.digest, position = struct.unpack(YOUNG, text, position)
    holder.young[i] = part
  end
  return holder
end

local function pack(holder)
  local settled, young = holder.settled, holder.young
  if holder.changed or not holder.state then
    holder.state = struct.pack(STATE, holder.presence, holder.open, holder.closed_at, holder.beaten_at,
      holder.vouched_at, holder.reclaimed_at, holder.cause, holder.quarantined, holder.reported,
      #holder.proxy, holder.proxy)
  end
  local head = struct.pack(HEAD, FORMAT, holder.beat, settled.count, settled.digest)
  local first = young[1]
  if first and not young[2] then -- as nearly always
    return head .. holder.state .. struct.pack(ONE_YOUNG, 1, first.beat, first.count, first.digest)
  end
  local text = head .. holder.state .. struct.pack(YOUNG_COUNT, #young)
  for i = 1, #young do
    text = text .. struct.pack(YOUNG, young[i].beat, young[i].count, young[i].digest)
  end
  return text
end

local function open(text, leases)
  local holder = text and (Memory.take(Keys.holder, 'head', text) or Holder.unpack(text)) or unknown()
  holder.leases, holder.put_count, holder.drop_count = leases, 0, 0
  holder.changed, holder.counted = false, false
  return holder
end

-- The holder, with the leases of these numbers as far as it has them: one call for all.
function Holder.open(numbers)
  local found, leases = redis.call('HMGET', Keys.holder, 'head', unpack(numbers)), {}
  for i = 1, #numbers do
    leases[numbers[i]] = found[i + 1]
  end
  return open(found[1], leases)
end

-- The same with one lease.
function Holder.open_for(seq)
  local found = redis.call('HMGET', Keys.holder, 'head', seq)
  return open(found[1], { [seq] = found[2] })
end

-- The same with those of a batch: every `step`th argument, up to the last, is a lease's number.
function Holder.open_for_batch(args, last, step)
  if last == step then
    return Holder.open_for(args[1])
  end
  local numbers = {}
  for i = 1, last, step do
    numbers[#numbers + 1] = args[i]
  end
  return Holder.open(numbers)
end

-- Makes it known. It is believed for one lease_ttl_ms from here, without a beat.
function Holder.note(pool, holder, proxy)
  holder.known, holder.changed = true, true
  holder.beaten_at, holder.proxy = pool.now, proxy
  pool.holders, pool.rest = pool.holders + 1, false
  Holder.look_later(pool, holder)
end

-- Which of its parts a lease belongs to.
local function part_of(holder, number)
  local beat, young = Holder.beat_of(number), holder.young
  if beat < holder.beat then
    return holder.settled
  end
  for i = 1, #young do
    if young[i].beat == beat then
      return young[i]
    end
  end
  local part = Holder.new_part(beat)
  young[#young + 1] = part
  return part
end

local function write(holder, field, text)
  local puts, count = holder.puts, holder.put_count
  puts[count + 1], puts[count + 2], holder.put_count = field, text, count + 2
end

-- A lease that it did not have, or has, with another record.
function Holder.put(holder, seq, text)
  if not holder.leases[seq] then
    local number = seq + 0
    Holder.add(part_of(holder, number), number, 1)
    holder.counted = true
  end
  holder.leases[seq] = text
  write(holder, seq, text)
end

function Holder.drop(holder, seq)
  local number, young = seq + 0, holder.young
  Holder.add(part_of(holder, number), number, -1)
  holder.counted = true
  holder.leases[seq] = false
  holder.drop_count = holder.drop_count + 1
  holder.drops[holder.drop_count] = seq
  for i = #young, 1, -1 do
    if young[i].count == 0 then
      table.remove(young, i)
    end
  end
end

-- Head and leases in one call, and one more if some are gone. The last that a call does with it.
function Holder.save(holder)
  local head = (holder.changed or holder.counted) and pack(holder)
  if head then
    redis.call('HSET', Keys.holder, 'head', head, unpack(holder.puts, 1, holder.put_count))
  elseif holder.put_count > 0 then
    redis.call('HSET', Keys.holder, unpack(holder.puts, 1, holder.put_count))
  end
  if holder.drop_count > 0 then
    redis.call('HDEL', Keys.holder, unpack(holder.drops, 1, holder.drop_count))
  end
  holder.leases = false
  if head then
    Memory.keep(Keys.holder, 'head', head, holder)
  end
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
  pool.quarantined, pool.rest = pool.quarantined - holder.quarantined, false
  holder.young, holder.beat, holder.beaten_at = young, beat, pool.now
  holder.reclaimed_at, holder.cause, holder.quarantined, holder.closed_at = 0, 0, 0, 0
  holder.changed = true
  write(holder, 'asking', #asking > 0 and ' ' .. table.concat(asking, ' ') .. ' ' or '')
  Holder.look_later(pool, holder)
end

-- Whether it holds exactly this many leases with this digest, apart from those on their way.
function Holder.agrees(holder, count, digest, under_way)
  local rest = { count = holder.settled.count, digest = holder.settled.digest }
  local seen = {}
  for _, seq in ipairs(under_way) do
    local number = tonumber(seq)
    if holder.leases[seq] and Holder.beat_of(number) < holder.beat and not seen[number] then
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
    pool.quarantined, pool.rest = pool.quarantined + 1, false
    Repair.count('quarantined', 1)
  end
end

Holder.CAUSES = { 'presence', 'ttl' }

-- Nothing that is said in its name counts any more; its leases are taken step by step.
function Holder.reclaim(pool, holder, cause)
  pool.holders, pool.quarantined, pool.rest = pool.holders - 1, pool.quarantined - holder.quarantined, false
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

-- presence: a sidecar tells that a holder is there, still there, or gone.
--
-- KEYS     the pool's keys and the holder's (lib/keys.lua)
-- ARGV 1   opened, vouched or ended
-- ARGV 2   the presence's number, above 0
-- ARGV 3   the holder's proxy
-- Returns  present, rebuild    the number of the rebuild that waits for this holder's beat, or 0
--          reclaimed           its places were given to others: it is to beat
--          superseded          this presence has ended, or a later one was opened
--          noted               the end is known
--          unknown_pool        the pool has no policy
-- Uses     Args Holder Pool Rebuild
-- Keeps    I7 I8: the end of a presence counts only if no later one was opened
-- Cost     at most 8 calls

Args.check(ARGV, 'tlt')
local pool = Pool.open()
if not pool then
  return { 'unknown_pool' }
end
local word, number = ARGV[1], tonumber(ARGV[2])
local holder = Holder.open({})
local over = number == holder.presence and holder.open == 0
if number < holder.presence or (over and word ~= 'ended') then
  return { 'superseded' } -- a late word of a presence that has ended does not open it again
end

if word == 'ended' then
  if not over then
    -- Also of one that the store does not know, or not any more: what it asked for may still be on its
    -- way, and would make it known as one that lives.
    if not holder.known then
      Holder.note(pool, holder, ARGV[3])
    end
    holder.presence, holder.open, holder.closed_at = number, 0, pool.now
    holder.changed = true
    Holder.look_later(pool, holder)
    Holder.save(holder)
    Pool.save(pool)
  end
  return { 'noted' }
end

if not holder.known then
  Holder.note(pool, holder, ARGV[3])
end
holder.presence, holder.open, holder.vouched_at = number, 1, pool.now
holder.changed = true
if holder.closed_at > 0 then
  holder.closed_at = 0
  Holder.look_later(pool, holder)
end
local rebuild = holder.reclaimed_at == 0 and Rebuild.await(pool, holder) or 0
Holder.save(holder)
Pool.save(pool)
if holder.reclaimed_at > 0 then
  return { 'reclaimed' }
end
return { 'present', string.format('%.0f', rebuild) }

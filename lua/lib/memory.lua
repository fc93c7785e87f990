-- Records, unpacked, kept between calls: to unpack one costs more than to read it. A record is believed only
-- while Redis has the very bytes that were packed from it, so nothing that happens to the data, a failover or
-- a wipe, can make a kept one wrong. Whoever takes a record may change it: it is believed again only with the
-- bytes that it was packed to then, and not at all if its call ends before that.
-- Within one call a record is read once: whoever asks again gets the same one, with what has become of it.

local Memory = {}

-- About 2 kB each. When so many are kept, all are forgotten, and read anew.
local RECORDS_MAX = 4096

-- By key and field: record; text, false while somebody may have changed it; call, the last that had it.
local kept, count, call = {}, 0, 0

-- Another call begins.
function Memory.begin()
  call = call + 1
  if count >= RECORDS_MAX then
    kept, count = {}, 0
  end
end

-- The record that this call has had already, or nil.
function Memory.held(key, field)
  local fields = kept[key]
  local entry = fields and fields[field]
  if entry and entry.call == call then
    entry.text = false
    return entry.record
  end
end

-- The record that was packed to this text, or nil.
function Memory.take(key, field, text)
  local fields = kept[key]
  local entry = fields and fields[field]
  if entry and text and entry.text == text then
    entry.text, entry.call = false, call
    return entry.record
  end
end

-- This is what the field has; text is false when it may still change.
function Memory.keep(key, field, text, record)
  local fields = kept[key]
  if not fields then
    fields = {}
    kept[key] = fields
  end
  local entry = fields[field]
  if entry and entry.record == record then
    entry.text = text
  elseif entry then
    entry.text, entry.record, entry.call = text, record, call
  else
    fields[field] = { text = text, record = record, call = call }
    count = count + 1
  end
end

return Memory

-- Records, unpacked, kept between calls: to unpack one costs more than to read it. A record is believed only
-- while Redis has the very bytes that were packed from it, so nothing that happens to the data, a failover or
-- a wipe, can make a kept one wrong. Whoever takes a record may change it: it is believed again only with the
-- bytes that it was packed to then, and not at all if its call ends before that.
-- Within one call a record is read once: whoever asks again gets the same one, with what has become of it.

local Memory = {}

-- About 2 kB each. When so many are kept, all are forgotten, and read anew. Few, because what is kept costs more than
-- it saves once it does not fit into the processor's caches, through which Lua's collector walks all of it.
Memory.RECORDS_MAX = 128

-- By key and field. A record has kept_as, the text, false while somebody may have changed it, and kept_by, the last
-- call that had it.
local kept, count, call = {}, 0, 0

-- How often all were forgotten.
Memory.losses = 0

-- Another call begins.
function Memory.begin()
  call = call + 1
  if count >= Memory.RECORDS_MAX then
    kept, count, Memory.losses = {}, 0, Memory.losses + 1
  end
end

-- The record that this call has had already, or nil.
function Memory.held(key, field)
  local fields = kept[key]
  local record = fields and fields[field]
  if record and record.kept_by == call then
    record.kept_as = false
    return record
  end
end

-- The record that was packed to this text, or nil.
function Memory.take(key, field, text)
  local fields = kept[key]
  local record = fields and fields[field]
  if record and text and record.kept_as == text then
    record.kept_as, record.kept_by = false, call
    return record
  end
end

-- This is what the field has; text is false when it may still change.
function Memory.keep(key, field, text, record)
  local fields = kept[key]
  if not fields then
    fields = {}
    kept[key] = fields
  end
  if not fields[field] then
    count = count + 1
  end
  fields[field] = record
  record.kept_as, record.kept_by = text, call
end

return Memory

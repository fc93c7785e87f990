-- What a verb is given, checked before it writes anything: an error half-way would leave half of a change
-- behind. A shape has a letter for each argument:
--   l  the number of a lease, of a beat or of a presence, 0 .. 2^53
--   i  a whole number below 2^32
--   n  a number, 0 .. 2^64                      N  the same, or empty
--   w  a weight, 0.001 .. 1000
--   t  text that a record can keep, at most 255 bytes
--   o  an outcome
--   c  a cursor
--   j  JSON, whatever is in it: that is checked by the caller

local Args = {}

local TEXT_BYTES_MAX = 255

local OUTCOMES = { success = true, warning = true, connect_failed = true, reset_before_headers = true,
  reset = true, timeout = true, unknown = true }

local function is_between(text, min, max)
  local number = tonumber(text)
  return number and number >= min and number <= max -- not a number is neither
end

local function is_whole(text, max)
  return text:find('^%d+$') and is_between(text, 0, max)
end

local function is_number(text)
  return is_between(text, 0, 2 ^ 64)
end

local IS = {
  l = function(text) return is_whole(text, 2 ^ 53) end,
  i = function(text) return is_whole(text, 2 ^ 32 - 1) end,
  n = is_number,
  N = function(text) return text == '' or is_number(text) end,
  w = function(text) return is_between(text, 0.001, 1000) end,
  t = function(text) return #text <= TEXT_BYTES_MAX end,
  o = function(text) return OUTCOMES[text] end,
  c = function(text) return text:find('^%d+$') end,
  j = function() return true end,
}

local function check(args, i, letter)
  if not IS[letter](args[i]) then
    error('argument ' .. i .. ' is not what it must be: ' .. letter)
  end
end

-- The first arguments have the shape `first`; those that follow come in groups of the shape `each`.
function Args.check(args, first, each)
  local rest = #args - #first
  if rest < 0 or rest % (each and #each or rest + 1) ~= 0 then
    error('there are ' .. #args .. ' arguments')
  end
  for i = 1, #first do
    check(args, i, first:sub(i, i))
  end
  for i = #first + 1, #args do
    local at = (i - #first - 1) % #each + 1
    check(args, i, each:sub(at, at))
  end
end

return Args

-- What the algorithms have in common.
local call, format, find, match = redis.pcall, string.format, string.find, string.match
local gmatch, sub, char, concat = string.gmatch, string.sub, string.char, table.concat
local ceil, floor = math.ceil, math.floor
local MAX_HITS = 4503599627370496
local MAX_EXACT = 9007199254740992
-- A wait that no time ends.
local FOREVER = MAX_EXACT
-- A cost that is no number of hits.
local RESET = 1 - MAX_EXACT

-- How a number is formatted: `%d` costs half of `%.0f`, but goes through a C long,
-- which may have 32 bits.
local WHOLE = format('%d', MAX_HITS) == '4503599627370496' and '%d' or '%.0f'
local PAIR = WHOLE .. ':' .. WHOLE
local function text(number) return format(WHOLE, number) end

-- The number that `digits` are, if it is whole and not above `most`. Values that
-- are no state, since somebody wrote over them, count as keys never seen: no count
-- is left to honour, and refusing every request until an operator finds the key
-- would be worse. Other ways to write a number (hexadecimal, a line end after it)
-- pass: looking at each digit would cost a twentieth of the whole decision.
local function whole(digits, most)
  local number = tonumber(digits)
  if number and number >= 0 and number <= most and number % 1 == 0 then return number end
end

-- The two numbers in a value `one:other`, for half of what `match` costs.
local function pair(value, most, other_most)
  local colon = find(value, ':', 1, true)
  if not colon then return end
  local one, other = whole(sub(value, 1, colon - 1), most), whole(sub(value, colon + 1), other_most)
  if one and other then return one, other end
end

-- The error in a reply that may be a number.
local function type_error(reply) return type(reply) == 'table' and reply.err or nil end

-- Removes a key whose state says nothing.
local function erase(key) return type_error(call('DEL', key)) end

-- The expiry that is `span` microseconds away; at least a millisecond, since a
-- shorter one is an error.
local function expiry(span)
  local millis = ceil(span / 1000) + slack
  return text(millis > 0 and millis or 1)
end

-- Stores a value for `span` microseconds. PSETEX does what SET with PX does, for
-- 5 % less of the whole decision.
local function store(key, value, span) return call('PSETEX', key, expiry(span), value).err end

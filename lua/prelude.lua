-- One script decides a whole batch of requests. `build.rs` joins this file, the
-- algorithms in `limit/` and `decide.lua`, which runs them.
--
-- Rules for every line of it:
-- * It equals the pure machines in `src/limit/` field by field.
-- * All reads come before all writes, and nothing is written before every
--   request of the batch is decided: no error can leave half a request.
-- * Numbers are doubles, exact below 2^53, which every amount and instant is.
--   They become text only through `text` or `string.format`: `tostring` and
--   `..` keep 14 digits. No number is passed to a command as it is.
-- * The reply of a command is tested by its field `err`, which a string does not
--   have. A reply that may be a number is not: that has no fields.
--
-- Each key of a batch has a slot, counted from 1, and its state is kept in the
-- columns of its algorithm, at the slot: a table for each state would cost a
-- tenth of the whole decision.
local call, format, match, gmatch = redis.pcall, string.format, string.match, string.gmatch
local sub, char, concat = string.sub, string.char, table.concat
local ceil, floor = math.ceil, math.floor
local MAX_HITS = 4503599627370496
local MAX_EXACT = 9007199254740992
-- A wait that no time ends.
local FOREVER = MAX_EXACT
-- Costs that are no number of hits.
local RESET = 1 - MAX_EXACT
local REFUND_OF_NOTHING = 2 - MAX_EXACT

-- The algorithms by their number on the wire, each as a function that makes it,
-- since what a batch does not use should not cost. An algorithm has
--   parameters                                  how many integers follow its number
--   columns                                     the tables that hold its states
--   read(slot, key, now, args, at)              fills the slot; returns why it cannot
--   step(slot, now, cost, args, at, reply, to, key)  decides; writes the verdict after `to`:
--       allowed (1 or 0), remaining, remaining_before, retry_after, reset_after
--   write(slot, key, now, slack)                returns why it cannot; `slack` (ms)
--                                               lengthens the expiry
--   counts_since(slot, now, since)              whether the state counts whatever was taken
--                                               from `since` to `now`; where hits are leased
local ALGORITHMS = {}

-- Slots whose state must be written.
local dirty = {}

-- Few different instants and spans are written in one batch, and formatting a
-- double is the dearest thing that a script does beside its commands.
local texts = {}
local function text(number)
  local known = texts[number]
  if not known then
    known = format('%.0f', number)
    texts[number] = known
  end
  return known
end

-- The error in a reply that may be a number.
local function type_error(reply) return type(reply) == 'table' and reply.err or nil end

-- Removes a key whose state says nothing.
local function erase(key) return type_error(call('DEL', key)) end

-- Stores a value for `span` microseconds; at least for a millisecond, since a
-- shorter expiry is an error. PSETEX does what SET with PX does, for 5 % less of
-- the whole decision.
local function store(key, value, span, slack)
  local expiry = ceil(span / 1000) + slack
  return call('PSETEX', key, text(expiry > 0 and expiry or 1), value).err
end

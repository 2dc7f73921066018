-- One script decides a whole batch of requests. `build.rs` makes it of this file,
-- of one function, `load_module(number)`, which holds the others, and of
-- `decide.lua`, the function that is called.
--
-- ARGV[1] is a MessagePack array of integers, `args`:
--   [1] now (microseconds; 0 for the clock of Redis; below 0 for that clock as
--       well, and nothing is given back to a counter that is younger than the
--       moment -now)
--   [2] where in it the requests begin
--   then limits, each the number of its algorithm and its parameters,
--   then requests, which name a limit by where it stands.
-- KEYS are the keys of all charges in order.
--
-- Rules for every line of it:
-- * It equals the pure machines in `src/limit/` field by field.
-- * All reads of a request come before its writes, and nothing of it is written
--   before it is decided: no error can leave half a request.
-- * Numbers are doubles, exact below 2^53, which every amount and instant is.
--   They become text only through `text` or `string.format`: `tostring` and
--   `..` keep 14 digits. No number is passed to a command as it is.
-- * The reply of a command is tested by its field `err`, which a string does not
--   have. A reply that may be a number is not: that has no fields.
--
-- Run by EVALSHA, nothing of a script but its source is kept: each call makes all
-- functions and tables again, and a function costs as much as fifty lines that run.
-- So a module is made when the first request needs it, and what a charge needs is
-- kept in local variables. As a library of functions all of it is kept from call to
-- call: what is here and in the modules must not tell the next call anything.
local args, keys, now, slack, since

-- A cost that is no number of hits.
local REFUND_OF_NOTHING = -9007199254740990

-- The modules made so far: at 0 `groups.lua`, else an algorithm, which has the
-- state of one key in hand:
--   read(key, at)               takes that of the key; returns why it cannot
--   step(cost, at, reply, to)   decides; writes the verdict after `to`:
--       allowed (1 or 0), remaining, remaining_before, retry_after, reset_after
--   write(key)                  stores it; returns why it cannot
--   save(slot), load(slot)      puts it aside under a number, and takes it back
--   counts_since(moment)        whether it counts whatever was taken since then;
--                               only where hits are leased
-- `at` is where the limit stands in `args`.
local modules = {}

-- The state in hand must be written.
local dirty

-- Fixed window, the twin of `src/limit/fixed_window.rs`: see there for why.
-- Parameters: limit, window, flags (1: windows start at the first hit, 2:
-- refused hits are counted, 4: windows are those of a calendar, five bounds of
-- which follow, 8: replicas lease hits). Value: `count:end`, the end in
-- microseconds; where hits are leased `count:end:since`, since when it counts. A
-- state that was lost counts since later, so what was leased before is not given
-- back to it.
local count, stop, birth = 0, 0, nil
local counts, stops, births = {}, {}, {}
local WITH_TAIL = WHOLE .. '%s'
-- Many keys of a batch have the same window, and reading and formatting numbers
-- is the dearest thing that a script does beside its commands: the end of the
-- window met last, how values with it end, and, as of a moment, when they expire.
local known, tail, tail_expiry, as_of = -1, '', '', -1

local function read(key)
  count, stop, birth = 0, 0, nil
  local value = call('GET', key)
  if not value then return end
  if value.err then return value.err end
  local length, hits, micros = #tail, nil, known
  if length > 0 and sub(value, -length) == tail then
    hits = whole(sub(value, 1, -length - 1), MAX_HITS)
  end
  if not hits then hits, micros = pair(value, MAX_HITS, MAX_EXACT) end
  if not hits then
    local counted, ends, began = match(value, '^(%d+):(%d+):(%d+)$')
    hits, micros, birth = whole(counted, MAX_HITS), whole(ends, MAX_EXACT), whole(began, MAX_EXACT)
  end
  if hits and micros then count, stop = hits, micros end
end

-- End and length of the window that `now` is in, of those between the five
-- bounds from `at` on; outside of them, of one like the nearest.
local function calendar_window(at)
  local length
  for i = at, at + 3 do
    length = args[i + 1] - args[i]
    if now < args[i + 1] then return args[i + 1], length end
  end
  return now + length, length
end

local function step(cost, at, reply, to)
  local limit, window, flags = args[at + 1], args[at + 2], args[at + 3]
  if cost == RESET then
    count, stop, dirty = 0, 0, true
    cost = REFUND_OF_NOTHING
  end
  local live = stop > now
  local before, ends = live and count or 0, now + window
  if flags % 8 >= 4 then
    ends, window = calendar_window(at + 4)
  elseif flags % 2 == 0 then
    -- `%` is exact for integers below 2^53.
    ends = ends - now % window
  elseif live and stop < ends then
    ends = stop
  end
  if stop > ends and stop <= ends + window then ends = stop end

  local allowed, after = true, before
  if cost > 0 then
    after = before + cost
    if after > MAX_HITS then after = MAX_HITS end
    allowed = after <= limit
    if not allowed and flags % 4 < 2 then after = before end
  elseif cost == 0 then
    allowed = before <= limit
  elseif cost ~= REFUND_OF_NOTHING then
    after = before + cost
    if after < 0 then after = 0 end
  end
  if after ~= before or live and stop ~= ends then
    count, stop, dirty = after, ends, true
    if not live then birth = nil end
    if flags >= 8 and not birth then birth = now end
  end

  local reset = ends - now
  if reset > window then reset = window end
  local left = limit > before and limit - before or 0
  if allowed then
    reply[to + 1], reply[to + 2] = 1, limit > after and limit - after or 0
    reply[to + 3], reply[to + 4], reply[to + 5] = left, 0, reset
  else
    reply[to + 1], reply[to + 2], reply[to + 3] = 0, 0, left
    reply[to + 4], reply[to + 5] = cost > limit and FOREVER or reset, reset
  end
end

-- The expiry is the window's end and goes with every write: it never moves
-- within a window, and a key that lost it (PERSIST, a restore) has it again.
local function write(key)
  if stop == 0 then return erase(key) end
  if stop ~= known or now ~= as_of then
    known, tail, tail_expiry, as_of = stop, ':' .. text(stop), expiry(stop - now), now
  end
  local value = format(WITH_TAIL, count, tail)
  if birth then value = value .. ':' .. text(birth) end
  return call('PSETEX', key, tail_expiry, value).err
end

local function counts_since(moment) return stop > now and birth and birth <= moment end

local function save(slot) counts[slot], stops[slot], births[slot] = count, stop, birth end
local function load(slot) count, stop, birth = counts[slot], stops[slot], births[slot] end

return {
  read = read, step = step, write = write, save = save, load = load, counts_since = counts_since,
}

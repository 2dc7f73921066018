-- Sliding window counter, the twin of `src/limit/sliding_counter.rs`: see there
-- for why. Parameters: limit, window, tick. Value: `current:previous:void_at`.
local current, previous, void = 0, 0, 0
local TRIPLE = PAIR .. ':' .. WHOLE
local currents, previouses, voids = {}, {}, {}

local function read(key)
  current, previous, void = 0, 0, 0
  local value = call('GET', key)
  if not value then return end
  if value.err then return value.err end
  local here, there, micros = match(value, '^(%d+):(%d+):(%d+)$')
  if not here then return end
  here, there, micros = here + 0, there + 0, micros + 0
  if here <= MAX_HITS and there <= MAX_HITS and micros <= MAX_EXACT then
    current, previous, void = here, there, micros
  end
end

-- Start of the present window, the counts as of `now`, and the start of the
-- stored window.
local function view(limit, window)
  local start = now - now % window
  local known = void > 2 * window and void - 2 * window or 0
  if known > start and known <= start + window then start = known end
  local here, there = 0, 0
  if void > now then
    if known >= start then
      here, there = current, previous
    else
      there = current
    end
  end
  if here > limit then here = limit end
  if there > limit then there = limit end
  return start, here, there, known
end

-- How many hits fit beside those `taken` in this window and those `before` it,
-- of which the part of `fading` out of `ticks` still counts.
local function left(limit, ticks, fading, taken, before)
  local room = (limit - taken) * ticks - before * fading
  return room > 0 and floor(room / ticks) or 0
end

-- What a charge that costs `cost` makes of the counts, and whether it passes.
local function charged(cost, room, here, there)
  if cost > 0 then
    if cost > room then return false, here, there end
    return true, here + cost, there
  end
  if cost == 0 then return room >= 1, here, there end
  if cost == REFUND_OF_NOTHING then return true, here, there end
  local after = here + cost
  if after >= 0 then return true, after, there end
  there = there + after
  return true, 0, there > 0 and there or 0
end

local function step(cost, at, reply, to)
  if cost == RESET then
    current, previous, void, dirty = 0, 0, 0, true
    cost = REFUND_OF_NOTHING
  end
  local limit, window, tick = args[at + 1], args[at + 2], args[at + 3]
  local ticks = window / tick
  local start, here, there, known = view(limit, window)
  local into = now > start and floor((now - start) / tick) or 0
  if into > ticks then into = ticks end

  local before = left(limit, ticks, ticks - into, here, there)
  local allowed, after, older = charged(cost, before, here, there)
  if after ~= here or older ~= there or void > now and known > start then
    current, previous, dirty = after, older, true
    void = (after > 0 or older > 0) and start + 2 * window or 0
  end

  local wanted, retry = cost > 0 and cost or 1, 0
  if not allowed and wanted > limit then
    retry = FOREVER
  elseif not allowed then
    local from, fading, room = start, there, limit - here - wanted
    if room < 0 or there == 0 then
      from, fading, room = start + window, here, limit - wanted
    end
    local covered = fading > 0 and floor(room * ticks / fading) or ticks
    if covered > ticks then covered = ticks end
    retry = from + (ticks - covered) * tick - now
    if retry < 0 then retry = 0 end
  end
  local reset = after > 0 and start + 2 * window - now or older > 0 and start + window - now or 0
  if reset < 0 then reset = 0 end
  if reset > 2 * window then reset = 2 * window end
  reply[to + 1] = allowed and 1 or 0
  reply[to + 2] = allowed and left(limit, ticks, ticks - into, after, older) or 0
  reply[to + 3], reply[to + 4], reply[to + 5] = before, retry, reset
end

local function write(key)
  if void == 0 then return erase(key) end
  return store(key, format(TRIPLE, current, previous, void), void - now)
end

local function save(slot)
  currents[slot], previouses[slot], voids[slot] = current, previous, void
end
local function load(slot)
  current, previous, void = currents[slot], previouses[slot], voids[slot]
end

return { read = read, step = step, write = write, save = save, load = load }

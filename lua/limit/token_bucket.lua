-- Token bucket, the twin of `src/limit/token_bucket.rs`: see there for why.
-- Parameters as `rate` has them. Value: `missing:full_at`, units and microseconds.
local missing, full_at = 0, 0
local missings, fulls = {}, {}

local function read(key)
  missing, full_at = 0, 0
  local value = call('GET', key)
  if not value then return end
  if value.err then return value.err end
  local units, micros = pair(value, MAX_HITS, MAX_EXACT)
  if units then missing, full_at = units, micros end
end

-- What is missing at `now`, the tick up to which that is true, and the tick
-- up to which that of the stored state is.
local function refilled(capacity, refill, period, tick)
  local full, present = capacity * period, floor(now / tick)
  local full_ticks = ceil(full / refill)
  local known = floor(full_at / tick) - ceil(missing / refill)
  if known < 0 then known = 0 end
  local units = missing < full and missing or full
  if present >= known then
    local ticks = present - known
    if ticks > full_ticks then ticks = full_ticks end
    units = units - ticks * refill
    return units > 0 and units or 0, present, known
  end
  return units, known - present <= full_ticks and known or present, known
end

local function step(cost, at, reply, to)
  if cost == RESET then
    missing, full_at, dirty = 0, 0, true
    cost = REFUND_OF_NOTHING
  end
  local capacity, refill, period, tick = args[at + 1], args[at + 2], args[at + 3], args[at + 4]
  local before, present, known = refilled(capacity, refill, period, tick)
  local allowed, after, wanted = charge(capacity, period, before, cost)
  if after ~= before or before > 0 and present < known then
    missing, dirty = after, true
    full_at = after > 0 and (present + ceil(after / refill)) * tick or 0
  end
  verdict(at, allowed, before, after, wanted, present, reply, to)
end

local function write(key)
  if missing == 0 then return erase(key) end
  return store(key, format(PAIR, missing, full_at), full_at - now)
end

local function save(slot) missings[slot], fulls[slot] = missing, full_at end
local function load(slot) missing, full_at = missings[slot], fulls[slot] end

return { read = read, step = step, write = write, save = save, load = load }

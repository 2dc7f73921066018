-- Token bucket, the twin of `src/limit/token_bucket.rs`: see there for why. Parameters: capacity, refill, period, tick. Value:
-- `missing:full_at`, units and microseconds.

ALGORITHMS[4] = function()
  local charge, verdict = rate()
  local missings, fulls = {}, {}

  local function read(slot, key)
    missings[slot], fulls[slot] = 0, 0
    local value = call('GET', key)
    if not value then return end
    if value.err then return value.err end
    local missing, full = match(value, '^(%d+):(%d+)$')
    if not missing then return end
    missing, full = missing + 0, full + 0
    if missing <= MAX_HITS and full <= MAX_EXACT then missings[slot], fulls[slot] = missing, full end
  end

  -- What is missing at `now`, and the tick up to which that is true.
  local function refilled(slot, now, capacity, refill, period, tick)
    local full, present = capacity * period, floor(now / tick)
    local full_ticks = ceil(full / refill)
    local known = floor(fulls[slot] / tick) - ceil(missings[slot] / refill)
    if known < 0 then known = 0 end
    local missing = missings[slot] < full and missings[slot] or full
    if present >= known then
      local ticks = present - known
      if ticks > full_ticks then ticks = full_ticks end
      missing = missing - ticks * refill
      return missing > 0 and missing or 0, present, known
    end
    return missing, known - present <= full_ticks and known or present, known
  end

  local function step(slot, now, cost, args, place, reply, to)
    if cost == RESET then
      missings[slot], fulls[slot], dirty[slot] = 0, 0, true
      cost = REFUND_OF_NOTHING
    end
    local capacity, refill, period, tick =
      args[place], args[place + 1], args[place + 2], args[place + 3]
    local missing, at, known = refilled(slot, now, capacity, refill, period, tick)
    local allowed, after, wanted = charge(capacity, period, missing, cost)
    if after ~= missing or missing > 0 and at < known then
      missings[slot], dirty[slot] = after, true
      fulls[slot] = after > 0 and (at + ceil(after / refill)) * tick or 0
    end
    verdict(args, place, allowed, missing, after, wanted, at, now, reply, to)
  end

  local function write(slot, key, now, slack)
    if missings[slot] == 0 then return erase(key) end
    local value = text(missings[slot]) .. ':' .. text(fulls[slot])
    return store(key, value, fulls[slot] - now, slack)
  end

  return { parameters = 4, columns = { missings, fulls }, read = read, step = step, write = write }
end

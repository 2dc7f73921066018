-- GCRA, the twin of `src/limit/gcra.rs`: see there for why. Parameters as those
-- of the token bucket. Value: `arrival`, in microseconds, and `:part` where the
-- arrival has parts of a tick.
ALGORITHMS[5] = function()
  local charge, verdict = rate()
  local arrivals, parts = {}, {}

  local function read(slot, key)
    arrivals[slot], parts[slot] = 0, 0
    local value = call('GET', key)
    if not value then return end
    if value.err then return value.err end
    local arrival, part = match(value, '^(%d+):?(%d*)$')
    if not arrival then return end
    arrival, part = arrival + 0, part == '' and 0 or part + 0
    if arrival <= MAX_EXACT and part <= MAX_HITS then arrivals[slot], parts[slot] = arrival, part end
  end

  local function step(slot, now, cost, args, place, reply, to)
    if cost == RESET then
      arrivals[slot], parts[slot], dirty[slot] = 0, 0, true
      cost = REFUND_OF_NOTHING
    end
    local capacity, refill, period, tick =
      args[place], args[place + 1], args[place + 2], args[place + 3]
    local full, present = capacity * period, floor(now / tick)
    local ahead, missing = floor(arrivals[slot] / tick) - present, 0
    if ahead >= 0 and ahead <= 2 * ceil(full / refill) then
      missing = ahead * refill + parts[slot]
      if missing > full then missing = full end
    end
    local allowed, after, wanted = charge(capacity, period, missing, cost)
    if after ~= missing then
      dirty[slot] = true
      arrivals[slot], parts[slot] = 0, 0
      if after > 0 then
        arrivals[slot], parts[slot] = (present + floor(after / refill)) * tick, after % refill
      end
    end
    verdict(args, place, allowed, missing, after, wanted, present, now, reply, to)
  end

  local function write(slot, key, now, slack)
    local arrival, part = arrivals[slot], parts[slot]
    if arrival == 0 and part == 0 then return erase(key) end
    if part == 0 then return store(key, text(arrival), arrival - now, slack) end
    -- Parts of a tick need a whole one, which is a second at most.
    return store(key, text(arrival) .. ':' .. text(part), arrival + 1000000 - now, slack)
  end

  return { parameters = 4, columns = { arrivals, parts }, read = read, step = step, write = write }
end

-- What token bucket and GCRA have in common, the twin of `src/limit/rate.rs`:
-- see there for why. Parameters: capacity, refill, period, tick.
local function rate()
  -- What a rate with these parameters makes of `cost` when `missing` units are
  -- gone: whether it passes, how many are gone after it, how many it wants.
  local function charge(capacity, period, missing, cost)
    local full = capacity * period
    if cost == 0 then return missing + period <= full, missing, period end
    if cost == REFUND_OF_NOTHING then return true, missing, 0 end
    local hits = cost < 0 and -cost or cost
    if hits > capacity + 1 then hits = capacity + 1 end
    local units = hits * period
    if cost < 0 then return true, missing > units and missing - units or 0, 0 end
    if missing + units <= full then return true, missing + units, units end
    return false, missing, units
  end

  -- The verdict on a charge of `wanted` units that left `after` missing as of the
  -- tick `at`.
  local function verdict(args, place, allowed, before, after, wanted, at, now, reply, to)
    local capacity, refill, period, tick =
      args[place], args[place + 1], args[place + 2], args[place + 3]
    local full = capacity * period
    local fill = ceil(full / refill) * tick
    local function wait(units)
      local span = (at + ceil(units / refill)) * tick - now
      if span < 0 then return 0 end
      return span < fill and span or fill
    end
    local function left(units) return units < full and floor((full - units) / period) or 0 end
    reply[to + 1] = allowed and 1 or 0
    reply[to + 2] = allowed and left(after) or 0
    reply[to + 3] = left(before)
    reply[to + 4] = allowed and 0 or wanted > full and FOREVER or wait(after + wanted - full)
    reply[to + 5] = wait(after)
  end

  return charge, verdict
end

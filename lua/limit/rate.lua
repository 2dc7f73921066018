-- What token bucket and GCRA have in common, the twin of `src/limit/rate.rs`:
-- see there for why. Parameters: capacity, refill, period, tick.

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

-- How long until `units` have been refilled, of which `fill` is the most.
local function wait(units, refill, tick, present, fill)
  local span = (present + ceil(units / refill)) * tick - now
  if span < 0 then return 0 end
  return span < fill and span or fill
end

-- The verdict on a charge of `wanted` units that left `after` missing as of the
-- tick `present`.
local function verdict(at, allowed, before, after, wanted, present, reply, to)
  local capacity, refill, period, tick = args[at + 1], args[at + 2], args[at + 3], args[at + 4]
  local full = capacity * period
  local fill = ceil(full / refill) * tick
  local left = before < full and floor((full - before) / period) or 0
  local reset = wait(after, refill, tick, present, fill)
  if allowed then
    reply[to + 1], reply[to + 2] = 1, after < full and floor((full - after) / period) or 0
    reply[to + 3], reply[to + 4], reply[to + 5] = left, 0, reset
  else
    local retry = FOREVER
    if wanted <= full then retry = wait(after + wanted - full, refill, tick, present, fill) end
    reply[to + 1], reply[to + 2], reply[to + 3], reply[to + 4] = 0, 0, left, retry
    reply[to + 5] = reset
  end
end

-- Fixed window, the twin of `src/limit/fixed_window.rs`: see there for why.
-- Parameters: limit, window, flags (1: windows start at the first hit, 2:
-- refused hits are counted, 4: windows are those of a calendar, five bounds of
-- which follow, 8: replicas lease hits). Value: `count:end`, the end in microseconds;
-- where hits are leased `count:end:since`, since when it counts. A state that was
-- lost counts since later, so what was leased before is not given back to it.
ALGORITHMS[1] = function()
  local counts, stops, births = {}, {}, {}

  -- A value that is no state counts as a key never seen: somebody wrote over
  -- it, so no count is left to honour, and refusing every request until an
  -- operator finds the key would be worse than one fresh window.
  local function read(slot, key)
    counts[slot], stops[slot] = 0, 0
    local value = call('GET', key)
    if not value then return end
    if value.err then return value.err end
    local birth
    local count, stop = match(value, '^(%d+):(%d+)$')
    if not count then
      count, stop, birth = match(value, '^(%d+):(%d+):(%d+)$')
      if not count then return end
      birth = birth + 0
    end
    count, stop = count + 0, stop + 0
    if count <= MAX_HITS and stop <= MAX_EXACT then
      counts[slot], stops[slot] = count, stop
      if birth and birth <= MAX_EXACT then births[slot] = birth end
    end
  end

  -- End and length of the window that `now` is in, of those between five bounds;
  -- outside of them, of one like the nearest.
  local function calendar_window(now, args, at)
    local length
    for i = at, at + 3 do
      length = args[i + 1] - args[i]
      if now < args[i + 1] then return args[i + 1], length end
    end
    return now + length, length
  end

  local function step(slot, now, cost, args, at, reply, to)
    local limit, window, flags = args[at], args[at + 1], args[at + 2]
    if cost == RESET then
      counts[slot], stops[slot], dirty[slot] = 0, 0, true
      cost = REFUND_OF_NOTHING
    end
    local was = stops[slot]
    local live = was > now
    local before = live and counts[slot] or 0
    local stop = now + window
    if flags % 8 >= 4 then
      stop, window = calendar_window(now, args, at + 3)
    elseif flags % 2 == 0 then
      -- `%` is exact for integers below 2^53.
      stop = stop - now % window
    elseif live and was < stop then
      stop = was
    end
    if was > stop and was <= stop + window then stop = was end

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
    if after ~= before or live and was ~= stop then
      counts[slot], stops[slot], dirty[slot] = after, stop, true
      if not live then births[slot] = nil end
      if flags >= 8 and not births[slot] then births[slot] = now end
    end

    local reset = stop - now
    if reset > window then reset = window end
    reply[to + 1] = allowed and 1 or 0
    reply[to + 2] = allowed and limit > after and limit - after or 0
    reply[to + 3] = limit > before and limit - before or 0
    reply[to + 4] = allowed and 0 or cost > limit and FOREVER or reset
    reply[to + 5] = reset
  end

  -- The expiry is the window's end and goes with every write: it never moves
  -- within a window, and a key that lost it (PERSIST, a restore) has it again.
  local function write(slot, key, now, slack)
    local count, stop = counts[slot], stops[slot]
    if stop == 0 then return erase(key) end
    -- `%d` costs half of `%.0f` but goes through a C long, which may have 32 bits.
    local value = format(count < 2147483648 and '%d:%s' or '%.0f:%s', count, text(stop))
    if births[slot] then value = value .. ':' .. text(births[slot]) end
    return store(key, value, stop - now, slack)
  end

  local function counts_since(slot, now, since)
    return stops[slot] > now and births[slot] and births[slot] <= since
  end

  return {
    parameters = 3, columns = { counts, stops, births }, read = read, step = step, write = write,
    counts_since = counts_since,
  }
end

-- The same with the bounds of a calendar.
ALGORITHMS[7] = function()
  local algorithm = ALGORITHMS[1]()
  algorithm.parameters = 8
  return algorithm
end

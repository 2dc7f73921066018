-- Fixed window, the twin of `src/limit/fixed_window.rs`: see there for why.
-- Parameters: limit, window, flags (1: windows start at the first hit, 2:
-- refused hits are counted). Value: `count:end`, the end in microseconds.
ALGORITHMS[1] = function()
  local counts, stops = {}, {}

  -- A value that is no state counts as a key never seen: somebody wrote over
  -- it, so no count is left to honour, and refusing every request until an
  -- operator finds the key would be worse than one fresh window.
  local function read(slot, key)
    counts[slot], stops[slot] = 0, 0
    local value = call('GET', key)
    if not value then return end
    if value.err then return value.err end
    local count, stop = match(value, '^(%d+):(%d+)$')
    if not count then return end
    count, stop = count + 0, stop + 0
    if count <= MAX_HITS and stop <= MAX_EXACT then counts[slot], stops[slot] = count, stop end
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
    if flags % 2 == 0 then
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
      if not allowed and flags < 2 then after = before end
    elseif cost == 0 then
      allowed = before <= limit
    elseif cost ~= REFUND_OF_NOTHING then
      after = before + cost
      if after < 0 then after = 0 end
    end
    if after ~= before or live and was ~= stop then
      counts[slot], stops[slot], dirty[slot] = after, stop, true
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
  -- PSETEX does what SET with PX does, for 5 % less of the whole decision.
  local function write(slot, key, now, slack)
    local count, stop = counts[slot], stops[slot]
    if stop == 0 then
      local done = call('DEL', key)
      return type(done) == 'table' and done.err or nil
    end
    -- `%d` costs half of `%.0f` but goes through a C long, which may have 32 bits.
    local value = format(count < 2147483648 and '%d:%s' or '%.0f:%s', count, text(stop))
    return call('PSETEX', key, text(ceil((stop - now) / 1000) + slack), value).err
  end

  return { parameters = 3, columns = { counts, stops }, read = read, step = step, write = write }
end

-- Sliding window counter, the twin of `src/limit/sliding_counter.rs`: see there
-- for why. Parameters: limit, window, tick. Value: `current:previous:void_at`.
ALGORITHMS[3] = function()
  local currents, previouses, voids = {}, {}, {}

  local function read(slot, key)
    currents[slot], previouses[slot], voids[slot] = 0, 0, 0
    local value = call('GET', key)
    if not value then return end
    if value.err then return value.err end
    local current, previous, void = match(value, '^(%d+):(%d+):(%d+)$')
    if not current then return end
    current, previous, void = current + 0, previous + 0, void + 0
    if current <= MAX_HITS and previous <= MAX_HITS and void <= MAX_EXACT then
      currents[slot], previouses[slot], voids[slot] = current, previous, void
    end
  end

  -- Start of the present window and the counts as of `now`.
  local function view(slot, now, limit, window)
    local start = now - now % window
    local void = voids[slot]
    local known = void > 2 * window and void - 2 * window or 0
    if known > start and known <= start + window then start = known end
    local current, previous = 0, 0
    if void > now then
      if known >= start then
        current, previous = currents[slot], previouses[slot]
      else
        previous = currents[slot]
      end
    end
    if current > limit then current = limit end
    if previous > limit then previous = limit end
    return start, current, previous, known
  end

  local function step(slot, now, cost, args, place, reply, to)
    if cost == RESET then
      currents[slot], previouses[slot], voids[slot], dirty[slot] = 0, 0, 0, true
      cost = REFUND_OF_NOTHING
    end
    local limit, window, tick = args[place], args[place + 1], args[place + 2]
    local ticks = window / tick
    local start, current, previous, known = view(slot, now, limit, window)
    local into = now > start and floor((now - start) / tick) or 0
    if into > ticks then into = ticks end

    local function left(taken, before)
      local room = (limit - taken) * ticks - before * (ticks - into)
      return room > 0 and floor(room / ticks) or 0
    end

    local before = left(current, previous)
    local allowed, wanted, after, older = true, 0, current, previous
    if cost > 0 then
      wanted, allowed = cost, cost <= before
      if allowed then after = current + cost end
    elseif cost == 0 then
      wanted, allowed = 1, before >= 1
    elseif cost ~= REFUND_OF_NOTHING then
      after = current + cost
      if after < 0 then
        older = previous + after
        if older < 0 then older = 0 end
        after = 0
      end
    end

    if after ~= current or older ~= previous or voids[slot] > now and known > start then
      currents[slot], previouses[slot], dirty[slot] = after, older, true
      voids[slot] = (after > 0 or older > 0) and start + 2 * window or 0
    end

    local retry = 0
    if not allowed and wanted > limit then
      retry = FOREVER
    elseif not allowed then
      local from, fading, room = start, previous, limit - current - wanted
      if room < 0 or previous == 0 then
        from, fading, room = start + window, current, limit - wanted
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
    reply[to + 2] = allowed and left(after, older) or 0
    reply[to + 3] = before
    reply[to + 4] = retry
    reply[to + 5] = reset
  end

  local function write(slot, key, now, slack)
    if voids[slot] == 0 then return erase(key) end
    local value = text(currents[slot]) .. ':' .. text(previouses[slot]) .. ':' .. text(voids[slot])
    return store(key, value, voids[slot] - now, slack)
  end

  return {
    parameters = 3, columns = { currents, previouses, voids }, read = read, step = step, write = write,
  }
end

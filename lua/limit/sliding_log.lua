-- Sliding window log, the twin of `src/limit/sliding_log.rs`: see there for why.
-- Parameters: limit, window, block. Value: a sorted set of one member for each
-- hit, scored with its moment. Members are numbers in the order of hits, after
-- a letter for how many digits they have, so that those of one moment sort like
-- the numbers; short, so that a hundred hits stay in a compact encoding. A block
-- is the member `b`, scored with minus the moment of its end.
ALGORITHMS[2] = function()
  -- What is stored: how many live hits (-1: not asked yet), the newest one's
  -- moment and number, the end of a block (-1: not asked yet).
  local counts, newest, numbers, stored_blocks = {}, {}, {}, {}
  -- What this call does: hits taken off the newest end, hits added and their
  -- moment, the end of a block (-1: as stored), whether hits from the future
  -- move to now.
  local taken, added, moments, blocks, settled = {}, {}, {}, {}, {}
  local windows = {}

  local function read(slot, key)
    counts[slot], newest[slot], numbers[slot], stored_blocks[slot] = -1, 0, 0, -1
    taken[slot], added[slot], moments[slot], blocks[slot] = 0, 0, 0, -1
    settled[slot], windows[slot] = false, 0
    local last = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
    if last.err then return last.err end
    if not last[1] or last[1] == 'b' then return end
    newest[slot], numbers[slot] = last[2] + 0, sub(last[1], 2) + 0
  end

  -- Completes what `read` could not know to ask for: this needs the window.
  local function load(slot, key, now, window)
    windows[slot], counts[slot] = window, 0
    if newest[slot] > 0 then
      local cutoff = now > window and now - window or 0
      counts[slot] = call('ZCOUNT', key, '(' .. text(cutoff), '+inf')
    end
  end

  local function block_end(slot, key)
    if blocks[slot] >= 0 then return blocks[slot] end
    if stored_blocks[slot] < 0 then
      local score = call('ZSCORE', key, 'b')
      stored_blocks[slot] = score and -score or 0
    end
    return stored_blocks[slot]
  end

  local function total(slot) return counts[slot] - taken[slot] + added[slot] end

  -- The moment of the live hit that is `nth` from the oldest.
  local function moment(slot, key, now, nth)
    if nth > counts[slot] - taken[slot] then return moments[slot] end
    local cutoff = now > windows[slot] and now - windows[slot] or 0
    local at = newest[slot]
    if nth < counts[slot] then
      at = call('ZRANGEBYSCORE', key, '(' .. text(cutoff), '+inf', 'WITHSCORES',
        'LIMIT', text(nth - 1), '1')[2] + 0
    end
    if settled[slot] and at > now then return now end
    return at
  end

  local function log(slot, key, now, hits)
    if added[slot] == 0 then
      local count = total(slot)
      local last = count > 0 and moment(slot, key, now, count) or 0
      moments[slot] = last > now and last or now
    end
    added[slot], dirty[slot] = added[slot] + hits, true
  end

  local function unlog(slot, hits)
    local fresh = added[slot]
    if hits < fresh then
      added[slot] = fresh - hits
    else
      added[slot] = 0
      local stored = counts[slot]
      local off = taken[slot] + hits - fresh
      taken[slot] = off < stored and off or stored
    end
    dirty[slot] = true
  end

  -- Hits that lie in the future, since the clock stepped back, count as of now.
  local function settle(slot, now)
    if moments[slot] > now and added[slot] > 0 then
      moments[slot], dirty[slot] = now, true
    end
    if newest[slot] > now and counts[slot] > taken[slot] and not settled[slot] then
      settled[slot], dirty[slot] = true, true
    end
  end

  local function step(slot, now, cost, args, place, reply, to, key)
    local limit, window, block = args[place], args[place + 1], args[place + 2]
    if counts[slot] < 0 then load(slot, key, now, window) end
    if cost == RESET then
      taken[slot], added[slot], blocks[slot], dirty[slot] = counts[slot], 0, 0, true
      cost = REFUND_OF_NOTHING
    end

    local function blocked_for()
      if block == 0 then return 0 end
      local left = block_end(slot, key) - now
      if left > block then left = block end
      return left > 0 and left or 0
    end

    local blocked, count = blocked_for(), total(slot)
    local before = limit > count and limit - count or 0
    local allowed, wanted = true, 0
    if cost >= 0 then
      wanted = cost > 0 and cost or 1
      allowed = blocked == 0 and wanted <= before
    end
    if cost > 0 and allowed then
      log(slot, key, now, cost)
    elseif cost > 0 then
      settle(slot, now)
      if blocked == 0 and block > 0 then
        blocks[slot], dirty[slot] = now + block, true
      end
    elseif cost < 0 and cost ~= REFUND_OF_NOTHING then
      unlog(slot, -cost)
    end

    local was_blocked = blocked
    blocked, count = blocked_for(), total(slot)
    local retry = 0
    if not allowed and wanted > limit then
      retry = FOREVER
    elseif not allowed then
      local excess = count + wanted - limit
      if excess > 0 and count > 0 then
        retry = moment(slot, key, now, excess) + window - now
        if retry < 0 then retry = 0 end
      end
      if blocked > retry then retry = blocked end
    end
    local reset = count > 0 and moment(slot, key, now, count) + window - now or 0
    if blocked > reset then reset = blocked end
    reply[to + 1] = allowed and 1 or 0
    reply[to + 2] = allowed and blocked == 0 and limit > count and limit - count or 0
    reply[to + 3] = (blocked == 0 or allowed) and before or 0
    reply[to + 4] = retry
    reply[to + 5] = reset
  end

  -- More arguments than fit on Lua's stack would be an error: in parts.
  local PART = 1000

  -- Gives the hits from the future now as their moment.
  local function settle_stored(key, now)
    local late = call('ZRANGEBYSCORE', key, '(' .. text(now), '+inf')
    for first = 1, #late, PART do
      local arguments, size = {}, 0
      for i = first, math.min(first + PART - 1, #late) do
        arguments[size + 1], arguments[size + 2] = text(now), late[i]
        size = size + 2
      end
      call('ZADD', key, 'XX', unpack(arguments))
    end
  end

  local function add(key, number, at, hits)
    local arguments = {}
    for i = 1, hits do
      local digits = text(number + i)
      arguments[2 * i - 1], arguments[2 * i] = text(at), char(96 + #digits) .. digits
    end
    return call('ZADD', key, unpack(arguments))
  end

  local function write(slot, key, now, slack)
    local count, window = total(slot), windows[slot]
    -- A rule without a block does not ask for one, but if there is one it stays.
    local known = blocks[slot] >= 0 and blocks[slot] or stored_blocks[slot]
    if count == 0 then known = block_end(slot, key) end
    local block = known > now and known or 0
    if count == 0 and block == 0 then return erase(key) end
    local cutoff = now > window and now - window or 0
    local ends = block
    if count > 0 then
      local void = moment(slot, key, now, count) + window + 1000000
      if void > ends then ends = void end
    end
    local failed = type_error(call('ZREMRANGEBYSCORE', key, '0', text(cutoff)))
    if failed then return failed end
    if taken[slot] > 0 then call('ZREMRANGEBYRANK', key, text(-taken[slot]), '-1') end
    if settled[slot] then settle_stored(key, now) end
    local left, number = added[slot], numbers[slot]
    while left > 0 do
      local part = left < PART and left or PART
      add(key, number, moments[slot], part)
      left, number = left - part, number + part
    end
    if block > 0 then
      call('ZADD', key, text(-block), 'b')
    elseif blocks[slot] == 0 then
      -- A reset; a block that is merely over stays, as it does in memory.
      call('ZREM', key, 'b')
    end
    call('PEXPIRE', key, text(ceil((ends - now) / 1000) + slack))
  end

  return {
    parameters = 3,
    columns = { taken, added, moments, blocks, settled },
    read = read, step = step, write = write,
  }
end

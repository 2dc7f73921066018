-- Sliding window log, the twin of `src/limit/sliding_log.rs`: see there for why.
-- Parameters: limit, window, block. Value: a sorted set of one member for each
-- hit, scored with its moment. Members are numbers in the order of hits, after
-- a letter for how many digits they have, so that those of one moment sort like
-- the numbers; short, so that a hundred hits stay in a compact encoding. A block
-- is the member `b`, scored with minus the moment of its end. Where hits lie in
-- the future, `z` and the moment when that was noticed, scored like the newest
-- hit, is the last member.
ALGORITHMS[2] = function()
  -- What is stored: how many hits count, the newest one's moment and number, the
  -- end of a block (-1: not asked yet), the member `z`.
  local counts, newest, numbers, stored_blocks, marks = {}, {}, {}, {}, {}
  -- Whether what is stored is no log, and whether its hits from the future have
  -- counted long enough: neither counts.
  local foreign, gone = {}, {}
  -- What this call does: hits taken off the newest end, hits added and their
  -- moment, the end of a block (-1: as stored), since when hits from the future
  -- are known (0: there are none).
  local taken, added, moments, blocks, noticed = {}, {}, {}, {}, {}
  local windows = {}

  -- The number in a member; of a hit, in the order of hits.
  local function number_of(member)
    local number = tonumber(match(member or '', '^%l(%d+)$'))
    return number and number <= MAX_EXACT and number
  end

  local function cutoff(slot, now) return now > windows[slot] and now - windows[slot] or 0 end

  -- When hits from the future leave, if the clock does not reach them first.
  local function late_until(slot, now)
    local since = noticed[slot]
    return (since > 0 and since <= now and since or now) + windows[slot]
  end

  -- The hits that count, of which `newest` tells the last one; why they cannot be
  -- told.
  local function count(slot, key, now)
    local from, to = '(' .. text(cutoff(slot, now)), '+inf'
    if newest[slot] > now and late_until(slot, now) <= now then
      gone[slot], to = true, text(now)
    end
    local live = call('ZCOUNT', key, from, to)
    if type_error(live) then return live.err end
    if live > 0 and gone[slot] then
      local last = call('ZRANGEBYSCORE', key, from, to, 'WITHSCORES', 'LIMIT', text(live - 1), '1')
      if last.err then return last.err end
      newest[slot] = floor(last[2])
    elseif live > 0 and marks[slot] then
      live = live - 1
    end
    counts[slot] = live
  end

  local function read(slot, key, now, args, place)
    counts[slot], newest[slot], numbers[slot], stored_blocks[slot] = 0, 0, 0, -1
    marks[slot], foreign[slot], gone[slot] = nil, false, false
    taken[slot], added[slot], moments[slot], blocks[slot], noticed[slot] = 0, 0, 0, -1, 0
    windows[slot] = args[place + 1]
    local last = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
    if last.err then return last.err end
    local member, at = last[1], (last[2] or 0) + 0
    if not member or member == 'b' and at <= 0 then return end
    if sub(member, 1, 1) == 'z' then
      marks[slot], noticed[slot] = member, number_of(member) or 0
      member = call('ZRANGE', key, '-2', '-2')[1]
    end
    numbers[slot] = number_of(member)
    if numbers[slot] and at >= 1 and at <= MAX_EXACT and at % 1 == 0 then
      newest[slot] = at
      return count(slot, key, now)
    end
    foreign[slot], numbers[slot], noticed[slot] = true, 0, 0
  end

  local function block_end(slot, key)
    if blocks[slot] >= 0 then return blocks[slot] end
    if stored_blocks[slot] < 0 then
      local score = not foreign[slot] and call('ZSCORE', key, 'b')
      local stop = score and -score or 0
      stored_blocks[slot] = stop >= 0 and stop <= MAX_EXACT and floor(stop) or 0
    end
    return stored_blocks[slot]
  end

  local function total(slot) return counts[slot] - taken[slot] + added[slot] end

  -- The moment of the live hit that is `nth` from the oldest; 0 of none.
  local function moment(slot, key, now, nth)
    if nth == 0 then return 0 end
    if nth > counts[slot] - taken[slot] then return moments[slot] end
    if nth == counts[slot] then return newest[slot] end
    local reply = call('ZRANGEBYSCORE', key, '(' .. text(cutoff(slot, now)), '+inf', 'WITHSCORES',
      'LIMIT', text(nth - 1), '1')
    return floor(reply[2])
  end

  -- How long until the hit that is `nth` from the oldest leaves.
  local function wait(slot, key, now, nth)
    local at = moment(slot, key, now, nth)
    if at > now then return late_until(slot, now) - now end
    return at + windows[slot] - now
  end

  local function log(slot, key, now, hits)
    if added[slot] == 0 then
      local last = moment(slot, key, now, total(slot))
      moments[slot] = last > now and last or now
    end
    added[slot], dirty[slot] = added[slot] + hits, true
    noticed[slot] = moments[slot] > now and now or 0
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

  -- Remembers since when hits from the future are known, or that there are none.
  local function notice(slot, key, now)
    local since = noticed[slot]
    if moment(slot, key, now, total(slot)) <= now then
      since = 0
    elseif since == 0 or since > now then
      since = now
    end
    if since ~= noticed[slot] then
      noticed[slot], dirty[slot] = since, true
    end
  end

  local function step(slot, now, cost, args, place, reply, to, key)
    local limit, block = args[place], args[place + 2]
    if cost == RESET then
      taken[slot], added[slot], blocks[slot], dirty[slot] = counts[slot], 0, 0, true
      noticed[slot] = 0
      cost = REFUND_OF_NOTHING
    end

    local function blocked_for()
      if block == 0 then return 0 end
      local left = block_end(slot, key) - now
      if left > block then
        notice(slot, key, now)
        left, blocks[slot], dirty[slot] = block, now + block, true
      end
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
      notice(slot, key, now)
      if blocked == 0 and block > 0 then
        blocks[slot], dirty[slot] = now + block, true
      end
    elseif cost < 0 and cost ~= REFUND_OF_NOTHING then
      unlog(slot, -cost)
      notice(slot, key, now)
      -- Nothing is left to know, not even a block that is over.
      if total(slot) == 0 and block_end(slot, key) <= now then blocks[slot] = 0 end
    end

    local was_blocked = blocked
    blocked, count = blocked_for(), total(slot)
    local retry = 0
    if not allowed and wanted > limit then
      retry = FOREVER
    elseif not allowed then
      local excess = count + wanted - limit
      if excess > 0 and count > 0 then retry = wait(slot, key, now, excess) end
      if blocked > retry then retry = blocked end
    end
    local reset = count > 0 and wait(slot, key, now, count) or 0
    if blocked > reset then reset = blocked end
    reply[to + 1] = allowed and 1 or 0
    reply[to + 2] = allowed and blocked == 0 and limit > count and limit - count or 0
    reply[to + 3] = (blocked == 0 or allowed) and before or 0
    reply[to + 4] = retry
    reply[to + 5] = reset
  end

  -- More arguments than fit on Lua's stack would be an error: in parts.
  local PART = 1000

  local function add(key, number, at, hits)
    local arguments = {}
    for i = 1, hits do
      local digits = text(number + i)
      arguments[2 * i - 1], arguments[2 * i] = text(at), char(96 + #digits) .. digits
    end
    return call('ZADD', key, unpack(arguments))
  end

  local function write(slot, key, now, slack)
    local count = total(slot)
    -- A rule without a block does not ask for one, but if there is one it stays.
    local known = blocks[slot] >= 0 and blocks[slot] or stored_blocks[slot]
    if count == 0 then known = block_end(slot, key) end
    local block = known > now and known or 0
    if count == 0 and block == 0 then return erase(key) end
    local last = moment(slot, key, now, count)
    local ends = count > 0 and last + windows[slot] + 1000000 or 0
    if block > ends then ends = block end

    local failed
    local function try(...)
      failed = failed or type_error(call(...))
    end
    if foreign[slot] then try('DEL', key) end
    if marks[slot] then try('ZREM', key, marks[slot]) end
    try('ZREMRANGEBYSCORE', key, '0', text(cutoff(slot, now)))
    if gone[slot] then try('ZREMRANGEBYSCORE', key, '(' .. text(now), '+inf') end
    if taken[slot] > 0 then try('ZREMRANGEBYRANK', key, text(-taken[slot]), '-1') end
    local left, number = added[slot], numbers[slot]
    while left > 0 do
      local part = left < PART and left or PART
      failed = failed or type_error(add(key, number, moments[slot], part))
      left, number = left - part, number + part
    end
    if noticed[slot] > 0 then
      try('ZADD', key, text(last), 'z' .. text(noticed[slot]))
    end
    if block > 0 then
      try('ZADD', key, text(-block), 'b')
    elseif blocks[slot] == 0 then
      -- A reset; a block that is merely over stays, as it does in memory.
      try('ZREM', key, 'b')
    end
    try('PEXPIRE', key, text(ceil((ends - now) / 1000) + slack))
    return failed
  end

  return {
    parameters = 3,
    columns = { taken, added, moments, blocks, noticed },
    read = read, step = step, write = write,
  }
end

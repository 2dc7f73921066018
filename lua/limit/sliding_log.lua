-- Sliding window log, the twin of `src/limit/sliding_log.rs`: see there for why.
-- Parameters: limit, window, block. Value: a sorted set of one member for each
-- hit, scored with its moment. Members are numbers in the order of hits, after
-- a letter for how many digits they have, so that those of one moment sort like
-- the numbers; short, so that a hundred hits stay in a compact encoding. A block
-- is the member `b`, scored with minus the moment of its end. Where hits lie in
-- the future, `z` and the moment when that was noticed, scored like the newest
-- hit, is the last member.
-- Whose log is in hand, and the window that it is read for.
local key, window
-- What is stored: how many hits count, the newest one's moment and number, the
-- end of a block (-1: not asked yet), the member `z`.
local count, newest, number, stored_block, mark
-- Whether what is stored is no log, and whether its hits from the future have
-- counted long enough: neither counts.
local foreign, gone
-- What this call does: hits taken off the newest end, hits added and their
-- moment, the end of a block (-1: as stored), since when hits from the future
-- are known (0: there are none).
local taken, added, moment_added, block_end, noticed
local rows = {}

-- The number in a member; of a hit, in the order of hits.
local function number_of(member)
  local digits = tonumber(match(member or '', '^%l(%d+)$'))
  return digits and digits <= MAX_EXACT and digits
end

local function cutoff() return now > window and now - window or 0 end

-- When hits from the future leave, if the clock does not reach them first.
local function late_until()
  return (noticed > 0 and noticed <= now and noticed or now) + window
end

-- The hits that count, of which `newest` tells the last one; why they cannot be
-- told.
local function read_count()
  local from, to = '(' .. text(cutoff()), '+inf'
  if newest > now and late_until() <= now then
    gone, to = true, text(now)
  end
  local live = call('ZCOUNT', key, from, to)
  if type_error(live) then return live.err end
  if live > 0 and gone then
    local last = call('ZRANGEBYSCORE', key, from, to, 'WITHSCORES', 'LIMIT', text(live - 1), '1')
    if last.err then return last.err end
    newest = floor(last[2])
  elseif live > 0 and mark then
    live = live - 1
  end
  count = live
end

local function read(name, at)
  key, window = name, args[at + 2]
  count, newest, number, stored_block, mark = 0, 0, 0, -1, nil
  foreign, gone = false, false
  taken, added, moment_added, block_end, noticed = 0, 0, 0, -1, 0
  local last = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  if last.err then return last.err end
  local member, score = last[1], (last[2] or 0) + 0
  if not member or member == 'b' and score <= 0 then return end
  if sub(member, 1, 1) == 'z' then
    mark, noticed = member, number_of(member) or 0
    member = call('ZRANGE', key, '-2', '-2')[1]
  end
  number = number_of(member)
  if number and score >= 1 and score <= MAX_EXACT and score % 1 == 0 then
    newest = score
    return read_count()
  end
  foreign, number, noticed = true, 0, 0
end

local function known_block()
  if block_end >= 0 then return block_end end
  if stored_block < 0 then
    local score = not foreign and call('ZSCORE', key, 'b')
    local stop = score and -score or 0
    stored_block = stop >= 0 and stop <= MAX_EXACT and floor(stop) or 0
  end
  return stored_block
end

local function total() return count - taken + added end

-- The moment of the live hit that is `nth` from the oldest; 0 of none.
local function moment(nth)
  if nth == 0 then return 0 end
  if nth > count - taken then return moment_added end
  if nth == count then return newest end
  local reply = call('ZRANGEBYSCORE', key, '(' .. text(cutoff()), '+inf', 'WITHSCORES',
    'LIMIT', text(nth - 1), '1')
  return floor(reply[2])
end

-- How long until the hit that is `nth` from the oldest leaves.
local function wait(nth)
  local at = moment(nth)
  if at > now then return late_until() - now end
  return at + window - now
end

local function log(hits)
  if added == 0 then
    local last = moment(total())
    moment_added = last > now and last or now
  end
  added, dirty = added + hits, true
  noticed = moment_added > now and now or 0
end

local function unlog(hits)
  if hits < added then
    added = added - hits
  else
    local off = taken + hits - added
    added, taken = 0, off < count and off or count
  end
  dirty = true
end

-- Remembers since when hits from the future are known, or that there are none.
local function notice()
  local since = noticed
  if moment(total()) <= now then
    since = 0
  elseif since == 0 or since > now then
    since = now
  end
  if since ~= noticed then
    noticed, dirty = since, true
  end
end

-- How long a rule that blocks for so long still does.
local function blocked_for(block)
  if block == 0 then return 0 end
  local left = known_block() - now
  if left > block then
    notice()
    left, block_end, dirty = block, now + block, true
  end
  return left > 0 and left or 0
end

local function step(cost, at, reply, to)
  local limit, block = args[at + 1], args[at + 3]
  if cost == RESET then
    taken, added, block_end, dirty = count, 0, 0, true
    noticed = 0
    cost = REFUND_OF_NOTHING
  end

  local was_blocked, hits = blocked_for(block), total()
  local before = limit > hits and limit - hits or 0
  local allowed, wanted = true, 0
  if cost >= 0 then
    wanted = cost > 0 and cost or 1
    allowed = was_blocked == 0 and wanted <= before
  end
  if cost > 0 and allowed then
    log(cost)
  elseif cost > 0 then
    notice()
    if was_blocked == 0 and block > 0 then
      block_end, dirty = now + block, true
    end
  elseif cost < 0 and cost ~= REFUND_OF_NOTHING then
    unlog(-cost)
    notice()
    -- Nothing is left to know, not even a block that is over.
    if total() == 0 and known_block() <= now then block_end = 0 end
  end

  local blocked, hits = blocked_for(block), total()
  local retry = 0
  if not allowed and wanted > limit then
    retry = FOREVER
  elseif not allowed then
    local excess = hits + wanted - limit
    if excess > 0 and hits > 0 then retry = wait(excess) end
    if blocked > retry then retry = blocked end
  end
  local reset = hits > 0 and wait(hits) or 0
  if blocked > reset then reset = blocked end
  reply[to + 1] = allowed and 1 or 0
  reply[to + 2] = allowed and blocked == 0 and limit > hits and limit - hits or 0
  reply[to + 3] = (blocked == 0 or allowed) and before or 0
  reply[to + 4], reply[to + 5] = retry, reset
end

-- More arguments than fit on Lua's stack would be an error: in parts.
local PART = 1000

local function add(after, at, hits)
  local arguments = {}
  for i = 1, hits do
    local digits = text(after + i)
    arguments[2 * i - 1], arguments[2 * i] = at, char(96 + #digits) .. digits
  end
  return call('ZADD', key, unpack(arguments))
end

local function write()
  local hits = total()
  -- A rule without a block does not ask for one, but one that is there stays.
  local known = known_block()
  local block = known > now and known or 0
  if hits == 0 and block == 0 then return erase(key) end
  local last = moment(hits)
  local ends = hits > 0 and last + window + 1000000 or 0
  if block > ends then ends = block end

  local failed
  local function try(...)
    failed = failed or type_error(call(...))
  end
  if foreign then try('DEL', key) end
  if mark then try('ZREM', key, mark) end
  try('ZREMRANGEBYSCORE', key, '0', text(cutoff()))
  if gone then try('ZREMRANGEBYSCORE', key, '(' .. text(now), '+inf') end
  if taken > 0 then try('ZREMRANGEBYRANK', key, text(-taken), '-1') end
  local left, after, at = added, number, text(moment_added)
  while left > 0 do
    local part = left < PART and left or PART
    failed = failed or type_error(add(after, at, part))
    left, after = left - part, after + part
  end
  if noticed > 0 then
    try('ZADD', key, text(last), 'z' .. text(noticed))
  end
  if block > 0 then
    try('ZADD', key, text(-block), 'b')
  elseif block_end == 0 then
    -- A reset; a block that is merely over stays, as it does in memory.
    try('ZREM', key, 'b')
  end
  try('PEXPIRE', key, expiry(ends - now))
  return failed
end

local function save(slot)
  rows[slot] = {
    key, window, count, newest, number, stored_block, mark, foreign, gone,
    taken, added, moment_added, block_end, noticed,
  }
end
local function load(slot)
  key, window, count, newest, number, stored_block, mark, foreign, gone,
    taken, added, moment_added, block_end, noticed = unpack(rows[slot], 1, 14)
end

return { read = read, step = step, write = write, save = save, load = load }

-- Lockout, the twin of `src/limit/lockout.rs`: see there for why. Parameters:
-- max_attempts, window, lockout. Value: `!until` while locked, or `at*failures`
-- for each moment of failures, oldest first, separated by commas.
-- Moments and numbers of failures in turn, a table that is replaced and never
-- changed; until when the key is locked; and the window.
local failures, lock, window = {}, 0, 0
local all_failures, locks, windows = {}, {}, {}

local function read(key)
  failures, lock = {}, 0
  local value = call('GET', key)
  if not value then return end
  if value.err then return value.err end
  local locked = match(value, '^!(%d+)$')
  if locked then
    if locked + 0 <= MAX_EXACT then lock = locked + 0 end
    return
  end
  if not match(value, '^[%d*,]+$') then return end
  local size = 0
  for at, count in gmatch(value, '(%d+)%*(%d+)') do
    if at + 0 <= MAX_EXACT and count + 0 <= MAX_HITS then
      failures[size + 1], failures[size + 2] = at + 0, count + 0
      size = size + 2
    end
  end
end

local function recent(known, cutoff)
  local sum = 0
  for i = 1, #known, 2 do
    if known[i] > cutoff then sum = sum + known[i + 1] end
  end
  return sum
end

-- Failures that still count, and `count` new ones.
local function with_failure(known, cutoff, count)
  local kept, size = {}, 0
  for i = 1, #known, 2 do
    if known[i] > cutoff then
      kept[size + 1], kept[size + 2] = known[i] < now and known[i] or now, known[i + 1]
      size = size + 2
    end
  end
  if kept[size - 1] == now then
    kept[size] = kept[size] + count
  else
    kept[size + 1], kept[size + 2] = now, count
  end
  return kept
end

local function step(cost, place, reply, to)
  local most, lockout = args[place + 1], args[place + 3]
  window = args[place + 2]
  if cost == RESET then
    failures, lock, dirty = {}, 0, true
    cost = REFUND_OF_NOTHING
  end
  local locked = lock - now
  if locked > lockout then
    locked, lock, dirty = lockout, now + lockout, true
  end
  if locked > 0 then
    local refund = cost < 0
    reply[to + 1], reply[to + 2], reply[to + 3] = refund and 1 or 0, 0, 0
    reply[to + 4], reply[to + 5] = refund and 0 or locked, locked
    return
  end

  local cutoff = now > window and now - window or 0
  local before = most - recent(failures, cutoff)
  if cost > 0 then
    failures = with_failure(failures, cutoff, cost < most and cost or most)
    lock, dirty = 0, true
  elseif cost < 0 and cost ~= REFUND_OF_NOTHING then
    failures, lock, dirty = {}, 0, true
  end
  local left = most - recent(failures, cutoff)
  locked = 0
  if cost > 0 and left <= 0 then
    locked, failures, lock = lockout, {}, now + lockout
  end
  local reset = locked
  if locked == 0 and #failures > 0 then
    reset = failures[#failures - 1] + window - now
    if reset < 0 then reset = 0 end
    if reset > window then reset = window end
  end
  reply[to + 1] = locked == 0 and 1 or 0
  reply[to + 2] = locked == 0 and left > 0 and left or 0
  reply[to + 3] = before > 0 and before or 0
  reply[to + 4], reply[to + 5] = locked, reset
end

local function write(key)
  if lock > now then return store(key, '!' .. text(lock), lock - now) end
  if #failures == 0 then return erase(key) end
  local parts = {}
  for i = 1, #failures, 2 do
    parts[#parts + 1] = text(failures[i]) .. '*' .. text(failures[i + 1])
  end
  return store(key, concat(parts, ','), failures[#failures - 1] + window - now)
end

local function save(slot)
  all_failures[slot], locks[slot], windows[slot] = failures, lock, window
end
local function load(slot)
  failures, lock, window = all_failures[slot], locks[slot], windows[slot]
end

return { read = read, step = step, write = write, save = save, load = load }

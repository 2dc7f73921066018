-- Decides requests in order; each sees what those before it did.
--
-- KEYS: the keys of all charges in order. ARGV[1]: a MessagePack array of
-- integers: now (microseconds; 0 for the clock of Redis; below 0 for that clock
-- as well, and nothing is given back to a counter that is younger than the moment
-- -now), then for each request
--   number of groups
-- and for each group of charges, which pass together or not at all,
--   quota passes (0 or 1), number of charges
-- and for each charge
--   role (0 enforced, 1 shadow, 2 quota), cost (0 a check, below 0 a refund),
--   number of the algorithm, its parameters.
-- Reply: a MessagePack array of now and, for each request, five integers for each
-- charge (see `step`); or, for a request that cannot be decided, one text that
-- says why. Such a request has no effect; the others of the batch do.
local args, keys = cmsgpack.unpack(ARGV[1]), KEYS
local now, slack, since = args[1], 0, nil
if now <= 0 then
  local time = redis.call('TIME')
  if now < 0 then since = -now end
  now = time[1] * 1000000 + time[2]
else
  -- A given clock may stand still while that of Redis goes on. Nothing but
  -- `now` decides whether a state is still valid, so keys outlive it.
  slack = 3600000
end

local algorithms = {}
-- Each key is read once and written once, however many charges name it.
local slots, slot_keys, slot_algorithms, used = {}, {}, {}, 0
local reply, said = { now }, 1
-- Of the request in hand: each charge's slot, where it begins in `args`, and
-- where each group does.
local charged, places, groups = {}, {}, {}

-- Decides the charges `first` to `last`, of which there is more than one. A
-- group that is refused consumes nothing:
-- 1. All charges are stepped in order, each on what those before it left. The
--    caller has switched off the counting of refused hits in all of them.
-- 2. If their verdicts refuse the group, every state goes back to what it was
--    before 1, and the charges are gone through once more in order: a shadow
--    charge is stepped again, with effect, and has that verdict; one that was
--    refused in 1 keeps its verdict, and has its effect (a block) if it is
--    refused again; any other is answered as a check, or as a refund of nothing
--    if it gives something back.
-- (Its parts are inside, because each function costs at every call of the
-- script, and this is seldom needed.)
local function together(quota_passes, first, last)
  local function step(i, cost, into, to)
    local slot = charged[i]
    slot_algorithms[slot].step(slot, now, cost, args, places[i] + 3, into, to, slot_keys[slot])
  end

  local function allowed(i) return reply[said + 5 * i - 4] == 1 end

  -- Any enforced charge refuses the group, and the quota charges do if there
  -- are any and all are refused. "Quota passes" stands for one without a limit.
  local function refused()
    local quota, passed = quota_passes, quota_passes
    for i = first, last do
      local role = args[places[i]]
      if role == 0 and not allowed(i) then return true end
      if role == 2 then
        quota, passed = true, passed or allowed(i)
      end
    end
    return quota and not passed
  end

  local function save(i)
    local slot, row = charged[i], {}
    for c, column in ipairs(slot_algorithms[slot].columns) do row[c] = column[slot] end
    return { row = row, dirty = dirty[slot] }
  end

  local function restore(i, saved)
    local slot = charged[i]
    for c, column in ipairs(slot_algorithms[slot].columns) do column[slot] = saved.row[c] end
    dirty[slot] = saved.dirty
  end

  local saved = {}
  for i = first, last do saved[i] = save(i) end
  for i = first, last do step(i, args[places[i] + 1], reply, said + 5 * i - 5) end
  if not refused() then return end

  for i = first, last do restore(i, saved[i]) end
  local unseen = {}
  for i = first, last do
    local cost = args[places[i] + 1]
    if args[places[i]] == 1 then
      step(i, cost, reply, said + 5 * i - 5)
    elseif allowed(i) then
      step(i, cost < 0 and REFUND_OF_NOTHING or 0, reply, said + 5 * i - 5)
    else
      local before = save(i)
      step(i, cost, unseen, 0)
      if unseen[1] == 1 then restore(i, before) end
    end
  end
end

local at, from, size = 2, 0, #args
while at <= size do
  local group_count, count, failed = args[at], 0, nil
  at = at + 1
  for group = 1, group_count do
    groups[group] = at
    local first = count + 1
    count = count + args[at + 1]
    at = at + 2
    for i = first, count do
      local key, number = keys[from + i], args[at + 2]
      local algorithm = algorithms[number]
      if not algorithm then
        algorithm = ALGORITHMS[number]()
        algorithms[number] = algorithm
      end
      local slot = slots[key]
      if not slot then
        local why = algorithm.read(used + 1, key, now, args, at + 3)
        if why then
          failed = why
        else
          used = used + 1
          slot = used
          slots[key], slot_keys[slot], slot_algorithms[slot] = slot, key, algorithm
        end
      end
      if since and args[at + 1] < 0 and not (algorithm.counts_since and algorithm.counts_since(slot, now, since)) then
        args[at + 1] = REFUND_OF_NOTHING
      end
      charged[i], places[i] = slot, at
      at = at + 3 + algorithm.parameters
    end
  end
  from = from + count
  if failed then
    said = said + 1
    reply[said] = failed
  else
    local last = 0
    for group = 1, group_count do
      local head, first = groups[group], last + 1
      last = last + args[head + 1]
      if first < last then
        together(args[head] == 1, first, last)
      else
        local slot, place = charged[first], places[first]
        local step = slot_algorithms[slot].step
        step(slot, now, args[place + 1], args, place + 3, reply, said + 5 * first - 5, slot_keys[slot])
      end
    end
    said = said + 5 * count
  end
end

-- The first write fails or none does: whatever makes Redis refuse writes (no
-- memory, a replica, a full disk) is settled before a script starts.
for slot = 1, used do
  if dirty[slot] then
    local why = slot_algorithms[slot].write(slot, slot_keys[slot], now, slack)
    if why then return { err = why } end
  end
end
return cmsgpack.pack(reply)

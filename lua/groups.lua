-- Requests that are more than one charge of one key: groups of charges, some of
-- which pass together or not at all. The module is one function.
--
-- Each key of a request has a slot, counted from 1, under which its state is put
-- aside between the charges that name it.
local slots, slot_keys, owners, dirties = {}, {}, {}, {}
local used = 0
-- What is said, and after which item of it the verdicts of the request in hand come.
local reply, base
-- Of each charge of the request in hand, its slot, and where it begins in `args`.
local charged, places = {}, {}
local unseen = {}

local function save(slot)
  owners[slot].save(slot)
  dirties[slot] = dirty
end

local function load(slot)
  owners[slot].load(slot)
  dirty = dirties[slot]
end

-- Puts what is saved under `from` under `to` as well.
local function copy(from, to)
  load(from)
  owners[to] = owners[from]
  save(to)
end

-- Takes the state that the charge at `at` is about in hand: as the charges before
-- it left it, or else as it is stored. Gives its slot, or why it cannot.
local function take(key, at)
  -- Leases are given back by requests of one charge: here nothing is.
  if since and args[at + 1] < 0 then args[at + 1] = REFUND_OF_NOTHING end
  local slot, limit = slots[key], args[at + 2]
  if slot then
    load(slot)
    return slot
  end
  local algorithm = modules[args[limit]] or load_module(args[limit])
  dirty = false
  local why = algorithm.read(key, limit)
  if why then return nil, why end
  slot = used + 1
  slots[key], slot_keys[slot], owners[slot] = slot, key, algorithm
  used = slot
  return slot
end

local function step(i, cost, into, to)
  local slot = charged[i]
  load(slot)
  owners[slot].step(cost, args[places[i] + 2], into, to)
  save(slot)
end

local function allowed(i) return reply[base + 5 * i - 4] == 1 end

-- Any enforced charge refuses the group, and the quota charges do if there
-- are any and all are refused. "Quota passes" stands for one without a limit.
local function refused(quota_passes, first, last)
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

-- Decides the charges `first` to `last`, of which there is more than one and the
-- states of which are put aside. A group that is refused consumes nothing:
-- 1. All charges are stepped in order, each on what those before it left. The
--    caller has switched off the counting of refused hits in all of them.
-- 2. If their verdicts refuse the group, every state goes back to what it was
--    before 1, and the charges are gone through once more in order: a shadow
--    charge is stepped again, with effect, and has that verdict; one that was
--    refused in 1 keeps its verdict, and has its effect (a block) if it is
--    refused again; any other is answered as a check, or as a refund of nothing
--    if it gives something back.
local function together(quota_passes, first, last)
  -- The states as they were before lie in the slots above.
  for i = first, last do copy(charged[i], used + i) end
  for i = first, last do step(i, args[places[i] + 1], reply, base + 5 * i - 5) end
  if not refused(quota_passes, first, last) then return end

  for i = first, last do copy(used + i, charged[i]) end
  for i = first, last do
    local cost, to = args[places[i] + 1], base + 5 * i - 5
    if args[places[i]] == 1 then
      step(i, cost, reply, to)
    elseif allowed(i) then
      step(i, cost < 0 and REFUND_OF_NOTHING or 0, reply, to)
    else
      copy(charged[i], used + i)
      step(i, cost, unseen, 0)
      if unseen[1] == 1 then copy(used + i, charged[i]) end
    end
  end
end

-- Stores what the request changed; returns whether it stored anything, and why it
-- cannot.
local function write()
  local written = false
  for slot = 1, used do
    if dirties[slot] then
      local owner = owners[slot]
      owner.load(slot)
      local failed = owner.write(slot_keys[slot])
      if failed then return written, failed end
      written = true
    end
  end
  return written
end

-- Decides the request at `at`, the keys of which come after `from`; its verdicts
-- go to `to` after `after`. Gives where the next one begins, how many charges it
-- has, why it cannot be read, whether it stored anything, and why it cannot store.
return function(at, from, to, after)
  local group_count, count, why = args[at + 1], 0, nil
  for slot = 1, used do slots[slot_keys[slot]] = nil end
  reply, base, at, used = to, after, at + 2, 0
  for _ = 1, group_count do
    local quota_passes, first = args[at] == 1, count + 1
    count = count + args[at + 1]
    at = at + 2
    for i = first, count do
      local slot
      if not why then slot, why = take(keys[from + i], at) end
      if slot then
        local owner = owners[slot]
        if first == count then
          owner.step(args[at + 1], args[at + 2], reply, base + 5 * i - 5)
        else
          charged[i], places[i] = slot, at
        end
        -- As `save` does; a call for each charge would cost a twentieth of it.
        owner.save(slot)
        dirties[slot] = dirty
      end
      at = at + 3
    end
    if not why and first < count then together(quota_passes, first, count) end
  end
  if why then return at, count, why end
  return at, count, nil, write()
end

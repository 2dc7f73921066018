-- Decides the requests in order; each sees what those before it did. A request is
--   the limit, the cost (0 a check, below 0 a refund)
-- of its only charge, or
--   0, number of groups
-- and for each group of charges, which pass together or not at all,
--   quota passes (0 or 1), number of charges
-- and for each charge
--   role (0 enforced, 1 shadow, 2 quota), cost, limit.
-- Reply: a MessagePack array of now and, for each request, five integers for each
-- charge (see `step`); or, for a request that cannot be decided, one text that
-- says why. Such a request has no effect; the others of the batch do.
local function decide(KEYS, ARGV)
  args, keys = cmsgpack.unpack(ARGV[1]), KEYS
  now, slack, since, dirty = args[1], 0, nil, false
  if now <= 0 then
    local time = redis.call('TIME')
    if now < 0 then since = -now end
    now = time[1] * 1000000 + time[2]
  else
    -- A given clock may stand still while that of Redis goes on. Nothing but
    -- `now` decides whether a state is still valid, so keys outlive it.
    slack = 3600000
  end
  -- What is said, of which `said` items are complete. It has room for twenty
  -- charges from the start, since growing costs a tenth of the whole decision.
  local reply, said = {
    now, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
    nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
    nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
    nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
    nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil,
  }, 1
  local args, keys, modules = args, keys, modules
  local at, from = args[2], 0
  -- The key whose state is in hand, so that requests for one key that follow each
  -- other read and write it once, and after which item of the reply their verdicts
  -- come.
  local held, owner, held_after
  local written = false
  while true do
    local limit, key, algorithm, why = args[at], nil, nil, nil
    if limit and limit > 0 then
      key, algorithm = keys[from + 1], modules[args[limit]] or load_module(args[limit])
    end
    local other = key ~= held or algorithm ~= owner
    if dirty and other then
      -- What makes Redis refuse all writes (no memory, a replica, a full disk) is
      -- settled before a script starts: the first write fails. Nothing was done then,
      -- and all of it can be tried again. Later a key may turn out to have left for
      -- another node: then only those fail who asked about it.
      local failed = owner.write(held)
      if failed and not written then return { err = failed } end
      if failed then
        local requests = (said - held_after) / 5
        said = held_after
        for _ = 1, requests do
          said = said + 1
          reply[said] = failed
        end
      end
      dirty, written = false, true
    end

    if not limit then
      break
    elseif limit > 0 then
      if other then
        dirty, held, owner, held_after = false, key, algorithm, said
        why = algorithm.read(key, limit)
      end
      if why then
        held, said = nil, said + 1
        reply[said] = why
      else
        local cost = args[at + 1]
        if since and cost < 0 and not (algorithm.counts_since and algorithm.counts_since(since)) then
          cost = REFUND_OF_NOTHING
        end
        algorithm.step(cost, limit, reply, said)
        said = said + 5
      end
      from, at = from + 1, at + 2
    else
      held = nil
      local decide_groups, count, stored, failed = modules[0] or load_module(0), nil, nil, nil
      at, count, why, stored, failed = decide_groups(at, from, reply, said)
      dirty, written = false, written or stored
      if failed and not written then return { err = failed } end
      if why or failed then
        said = said + 1
        reply[said] = why or failed
      else
        said = said + 5 * count
      end
      from = from + count
    end
  end
  -- What a request left that failed after some of its charges is not said.
  while #reply > said do reply[#reply] = nil end
  return cmsgpack.pack(reply)
end

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
  local at, from, size = args[2], 0, #args
  -- The key whose state is in hand, so that requests for one key that follow each
  -- other read and write it once.
  local held, owner
  while at <= size do
    local limit, why, failed = args[at], nil, nil
    if limit > 0 then
      local key, cost, algorithm = keys[from + 1], args[at + 1], modules[args[limit]] or load_module(args[limit])
      if key ~= held or algorithm ~= owner then
        if dirty then failed = owner.write(held) end
        dirty, held, owner = false, key, algorithm
        why = algorithm.read(key, limit)
      end
      if why then
        held = nil
        reply[said + 1] = why
        said = said + 1
      else
        if since and cost < 0 and not (algorithm.counts_since and algorithm.counts_since(since)) then
          cost = REFUND_OF_NOTHING
        end
        algorithm.step(cost, limit, reply, said)
        said = said + 5
      end
      from, at = from + 1, at + 2
    else
      if dirty then failed = owner.write(held) end
      dirty, held = false, nil
      local decide_groups, count, unwritten = modules[0] or load_module(0), nil, nil
      at, count, why, unwritten = decide_groups(at, from, reply, said)
      dirty = false
      failed = failed or unwritten
      if why then
        reply[said + 1] = why
        said = said + 1
      else
        said = said + 5 * count
      end
      from = from + count
    end
    -- The first write fails or none does: whatever makes Redis refuse writes (no
    -- memory, a replica, a full disk) is settled before a script starts.
    if failed then return { err = failed } end
  end
  if dirty then
    local failed = owner.write(held)
    if failed then return { err = failed } end
  end
  -- What a request left that failed after some of its charges is not said.
  while #reply > said do reply[#reply] = nil end
  return cmsgpack.pack(reply)
end

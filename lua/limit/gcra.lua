-- GCRA, the twin of `src/limit/gcra.rs`: see there for why. Parameters as `rate`
-- has them. Value: `arrival`, in microseconds, and `:part` where the arrival has
-- parts of a tick.
local arrival, part = 0, 0
local arrivals, parts = {}, {}

local function read(key)
  arrival, part = 0, 0
  local value = call('GET', key)
  if not value then return end
  if value.err then return value.err end
  local micros, rest = whole(value, MAX_EXACT), 0
  if not micros then micros, rest = pair(value, MAX_EXACT, MAX_HITS) end
  if micros then arrival, part = micros, rest end
end

local function step(cost, at, reply, to)
  if cost == RESET then
    arrival, part, dirty = 0, 0, true
    cost = REFUND_OF_NOTHING
  end
  local capacity, refill, period, tick = args[at + 1], args[at + 2], args[at + 3], args[at + 4]
  local full, present = capacity * period, floor(now / tick)
  local ahead, before = floor(arrival / tick) - present, 0
  if ahead >= 0 and ahead <= 2 * ceil(full / refill) then
    before = ahead * refill + part
    if before > full then before = full end
  end
  local allowed, after, wanted = charge(capacity, period, before, cost)
  if after ~= before then
    arrival, part, dirty = 0, 0, true
    if after > 0 then
      arrival, part = (present + floor(after / refill)) * tick, after % refill
    end
  end
  verdict(at, allowed, before, after, wanted, present, reply, to)
end

local function write(key)
  if arrival == 0 and part == 0 then return erase(key) end
  if part == 0 then return store(key, text(arrival), arrival - now) end
  -- Parts of a tick need a whole one, which is a second at most.
  return store(key, format(PAIR, arrival, part), arrival + 1000000 - now)
end

local function save(slot) arrivals[slot], parts[slot] = arrival, part end
local function load(slot) arrival, part = arrivals[slot], parts[slot] end

return { read = read, step = step, write = write, save = save, load = load }

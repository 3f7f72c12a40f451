-- Turns for calls to providers and servers, over the whole fleet. The rules are those of mst/providers/rates.py.
-- KEYS: 1 prefix of all keys here, e.g. "mst:limit:".
-- ARGV: 1 holder, 2 TTL of a holder (ms), 3 JSON: {asks, releases, pauses, known}, 4 MARGIN, 5 SLACK_MS, 6 HORIZON_MS,
--       7 settle (ms): how long nothing starts after the state was lost, so that holders can say what they have.
-- An ask is {call, class, tokens}; its class is the JSON of the rates it wants, the same text for all that want the same.
-- `known`, when there, is everything that the holder waits for or has: what Redis lost is written again, and what only
-- Redis knows of is given back.
-- The reply: milliseconds until somebody should look again (-1: when a call ends), how many turns were given, and the
-- time here (ms), by which a holder knows when a turn begins that it is told of.
local P = KEYS[1]
local holder, ttl = ARGV[1], tonumber(ARGV[2])
local given = cjson.decode(ARGV[3])
local MARGIN, SLACK, HORIZON, SETTLE = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local KEEP = 86400000

local clock = redis.call('TIME')
local now = clock[1] * 1000 + clock[2] / 1000

local function text(number)
  return string.format('%.3f', number)
end

local function keep(key)
  redis.call('PEXPIRE', key, KEEP)
end

local function lower(a, b)
  if a == nil then return b end
  if b == nil then return a end
  return math.min(a, b)
end

local caps = {}
local function capped(want)
  local cap = caps[want.resource]
  if cap == nil then
    local found = redis.call('HGET', P .. 'caps', want.resource)
    cap = found and cjson.decode(found) or {}
    caps[want.resource] = cap
  end
  return {
    resource = want.resource,
    concurrent = lower(want.concurrent, cap.concurrent),
    per_minute = lower(want.per_minute, cap.per_minute),
    tokens_per_minute = lower(want.tokens_per_minute, cap.tokens_per_minute),
  }
end

local function state(resource)
  local found = redis.call('HMGET', P .. 'state:' .. resource, 'call', 'token', 'paused')
  return tonumber(found[1] or 0), tonumber(found[2] or 0), tonumber(found[3] or 0)
end

local function set_state(resource, field, value)
  redis.call('HSET', P .. 'state:' .. resource, field, text(value))
  keep(P .. 'state:' .. resource)
  redis.call('SADD', P .. 'resources', resource)
  keep(P .. 'resources')
end

local function spacing(per_minute)
  return 60000 / (per_minute * MARGIN)
end

-- The time of the next call after one that starts at `start`; of lost time little is made up for where calls are rare.
local function next_of(start, step)
  local slack = step <= SLACK and SLACK or (1 - MARGIN) * step
  return math.max(start, now - slack) + step
end

local function queue_of(class)
  return P .. 'queue:' .. redis.sha1hex(class)
end

-- A call: {class, tokens, granted (ms) or nil, at: when its turn begins (ms)}.
local function call_of(id)
  local found = redis.call('HGET', P .. 'calls', id)
  return found and cjson.decode(found) or nil
end

local function save_call(id, call)
  redis.call('HSET', P .. 'calls', id, cjson.encode(call))
  keep(P .. 'calls')
end

local function owner_of(id)
  return string.match(id, '^(.-)/')
end

local function occupy(id, call)
  for _, want in ipairs(cjson.decode(call.class)) do
    redis.call('SADD', P .. 'use:' .. want.resource, id)
    keep(P .. 'use:' .. want.resource)
    redis.call('SADD', P .. 'resources', want.resource)
  end
  keep(P .. 'resources')
end

local function enqueue(id, ask)
  local class = ask.class
  save_call(id, {class = class, tokens = ask.tokens})
  redis.call('SADD', P .. 'by:' .. owner_of(id), id)
  keep(P .. 'by:' .. owner_of(id))
  redis.call('ZADD', queue_of(class), redis.call('INCR', P .. 'sequence'), id)
  keep(P .. 'sequence')
  keep(queue_of(class))
  redis.call('SADD', P .. 'classes', class)
  keep(P .. 'classes')
end

local function release(id, used)
  local call = call_of(id)
  if not call then return end
  redis.call('HDEL', P .. 'calls', id)
  redis.call('SREM', P .. 'by:' .. owner_of(id), id)
  redis.call('ZREM', queue_of(call.class), id)
  for _, want in ipairs(cjson.decode(call.class)) do
    redis.call('SREM', P .. 'use:' .. want.resource, id)
    local rate = capped(want).tokens_per_minute
    if call.granted and rate and used then
      local _, token = state(want.resource)
      set_state(want.resource, 'token', token + (used - call.tokens) * spacing(rate))
    end
  end
end

local function grant(id, at)
  local inbox = P .. 'inbox:' .. owner_of(id)
  redis.call('RPUSH', inbox, id .. ' ' .. text(at))
  redis.call('PEXPIRE', inbox, ttl * 4)
end

local function check_known(known)
  local mine = {}
  for _, ask in ipairs(known) do
    local id = holder .. '/' .. ask.call
    mine[id] = true
    local call = call_of(id)
    if not call and ask.has then
      call = {class = ask.class, tokens = ask.tokens, granted = now}
      save_call(id, call)
      redis.call('SADD', P .. 'by:' .. holder, id)
      keep(P .. 'by:' .. holder)
      occupy(id, call)
    elseif not call then
      enqueue(id, ask)
    elseif call.granted and not ask.has and now - call.granted > 1000 then
      grant(id, call.at or call.granted)  -- the word got lost
    end
  end
  for _, id in ipairs(redis.call('SMEMBERS', P .. 'by:' .. holder)) do
    if not mine[id] then
      release(id, nil)
    end
  end
end

-- Holders that fell silent: what they had or waited for is free.
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', P .. 'holders', '-inf', text(now))) do
  for _, id in ipairs(redis.call('SMEMBERS', P .. 'by:' .. gone)) do
    release(id, nil)
  end
  redis.call('DEL', P .. 'by:' .. gone, P .. 'inbox:' .. gone)
  redis.call('ZREM', P .. 'holders', gone)
end
redis.call('ZADD', P .. 'holders', text(now + ttl), holder)
keep(P .. 'holders')
if not redis.call('GET', P .. 'born') then
  redis.call('SET', P .. 'born', text(now))
end
keep(P .. 'born')

if type(given.known) == 'table' then
  check_known(given.known)
end
for _, one in ipairs(given.releases or {}) do
  release(holder .. '/' .. one.call, type(one.used) == 'number' and one.used or nil)
end
for _, one in ipairs(given.pauses or {}) do
  local _, _, paused = state(one.resource)
  set_state(one.resource, 'paused', math.max(paused, now + one.ms))
end
for _, ask in ipairs(given.asks or {}) do
  local id = holder .. '/' .. ask.call
  if not call_of(id) then
    enqueue(id, ask)
  end
end

local born = tonumber(redis.call('GET', P .. 'born'))
if now < born + SETTLE then
  return {math.ceil(born + SETTLE - now), 0, text(now)}
end

local again, turns = -1, 0
local function look_again(ms)
  again = again < 0 and math.ceil(ms) or math.min(again, math.ceil(ms))
end

local function start_of(wants)
  local start = now - SLACK
  for _, want in ipairs(wants) do
    local rate = capped(want)
    if rate.concurrent and redis.call('SCARD', P .. 'use:' .. want.resource) >= rate.concurrent then
      return nil
    end
    local call, token, paused = state(want.resource)
    start = math.max(start, paused, rate.per_minute and call or 0, rate.tokens_per_minute and token or 0)
  end
  return start
end

local function take(id, call, wants, start)
  call.granted = now
  call.at = math.max(start, now)
  save_call(id, call)
  occupy(id, call)
  for _, want in ipairs(wants) do
    local rate = capped(want)
    if rate.per_minute then
      set_state(want.resource, 'call', next_of(start, spacing(rate.per_minute)))
    end
    if rate.tokens_per_minute then
      set_state(want.resource, 'token', next_of(start, call.tokens * spacing(rate.tokens_per_minute)))
    end
  end
  turns = turns + 1
  grant(id, call.at)
end

for _, class in ipairs(redis.call('SMEMBERS', P .. 'classes')) do
  local queue, wants = queue_of(class), cjson.decode(class)
  while true do
    local id = redis.call('ZRANGE', queue, 0, 0)[1]
    if not id then
      redis.call('SREM', P .. 'classes', class)
      break
    end
    local call = call_of(id)
    if not call then
      redis.call('ZREM', queue, id)
    else
      local start = start_of(wants)
      if not start then break end
      if start > now + HORIZON then
        look_again(start - HORIZON - now)
        break
      end
      redis.call('ZREM', queue, id)
      take(id, call, wants, start)
    end
  end
end
return {again, turns, text(now)}

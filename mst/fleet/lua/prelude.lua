-- Read by every move before its own text. Above it stand: MOVES (event -> from -> to), UNCOUNTED, BACKS_OFF,
-- RETENTION_MS, EVENTS_MAX, POISON_CRASHES.
-- KEYS: 1 head of the dispatch, 2 entry of the shard, 3 units in flight, 4 crashes by unit, 5 events.
-- ARGV: 1 shard number, then what the move needs.
-- The reply: answer, why, attempt ID, cancel, then poisoned units.

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local h = redis.call('HMGET', KEYS[1], 'deadlineMs', 'leaseTtlMs', 'attempts', 'idleAttempts', 'cancel', 'closed')
local r = redis.call('HMGET', KEYS[2], 'state', 'n', 'attemptId', 'worker', 'open', 'leaseUntilMs', 'units', 'done',
  'doneAtGrant', 'lost', 'idle', 'reason', 'sentMs', 'sends')
if not h[1] or not r[1] then
  return {'unknown', '', '', ''}
end

local terms = {deadline = tonumber(h[1]), ttl = tonumber(h[2]), attempts = tonumber(h[3]), idle = tonumber(h[4])}
local cancel, closed = h[5] or '', h[6] == '1'
local e = {
  state = r[1], n = tonumber(r[2]), id = r[3], worker = r[4], open = r[5] == '1', lease = tonumber(r[6]),
  units = tonumber(r[7]), done = tonumber(r[8]), doneAtGrant = tonumber(r[9]), lost = tonumber(r[10]),
  idle = tonumber(r[11]), reason = r[12], sent = tonumber(r[13]), sends = tonumber(r[14]),
}
-- who holds the shard, or held it before this move
local holder = e.worker
local HELD = {leased = true, running = true}
local FINAL = {committed = true, failed = true, cancelled = true}

-- Lua would write large numbers as 1.7e+12.
local function int(number)
  return string.format('%.0f', number)
end

local function reply(answer, why, id, poison)
  local late = now > terms.deadline and 'deadline' or ''
  local stop = cancel ~= '' and cancel or late
  local out = {answer, why or '', id or '', stop}
  for _, unit in ipairs(poison or {}) do
    out[#out + 1] = unit
  end
  return out
end

local function has_lease()
  return HELD[e.state] and now < e.lease
end

local function is_mine(id)
  return e.open and id == e.id
end

local function number_of(id)
  return tonumber(string.match(id, '^(%d+)-'))
end

local function lost(id)
  if FINAL[e.state] then
    return reply('lost', e.state)
  end
  return reply('lost', id == e.id and 'given_back' or 'superseded')
end

local function is_past_limit()
  local all, idle = e.lost, e.idle
  if e.open then
    all = all + 1
    idle = e.done > e.doneAtGrant and 0 or idle + 1
  end
  return all >= terms.attempts or idle >= terms.idle
end

-- Checked before anything is written: a script that fails halfway is not undone.
local function go(event, to)
  if not (MOVES[event][e.state] and MOVES[event][e.state][to]) then
    error('illegal move: ' .. event .. ' from ' .. e.state .. ' to ' .. to)
  end
  e.state = to
end

local function finish_attempt()
  e.open, e.worker, e.lease = false, '', 0
  redis.call('DEL', KEYS[3])
end

local function settle()
  if not e.open then
    return
  end
  for _, unit in ipairs(redis.call('SMEMBERS', KEYS[3])) do
    redis.call('HINCRBY', KEYS[4], unit, 1)
  end
  e.lost = e.lost + 1
  e.idle = e.done > e.doneAtGrant and 0 or e.idle + 1
  finish_attempt()
end

local function poison()
  local flat, units = redis.call('HGETALL', KEYS[4]), {}
  for at = 1, #flat, 2 do
    if tonumber(flat[at + 1]) >= POISON_CRASHES then
      units[#units + 1] = flat[at]
    end
  end
  return units
end

local function save(event)
  redis.call('HSET', KEYS[2], 'state', e.state, 'n', int(e.n), 'attemptId', e.id, 'worker', e.worker,
    'open', e.open and '1' or '0', 'leaseUntilMs', int(e.lease), 'done', int(e.done),
    'doneAtGrant', int(e.doneAtGrant), 'lost', int(e.lost), 'idle', int(e.idle), 'reason', e.reason,
    'sentMs', int(e.sent), 'sends', int(e.sends))
  if event then
    redis.call('XADD', KEYS[5], 'MAXLEN', '~', EVENTS_MAX, '*', 'event', event, 'shard', ARGV[1], 'state', e.state,
      'attemptId', e.id, 'worker', e.worker ~= '' and e.worker or holder, 'done', int(e.done), 'reason', e.reason)
  end
  local keep = int(math.max(terms.deadline, now) + RETENTION_MS)
  for _, key in ipairs(KEYS) do
    redis.call('PEXPIREAT', key, keep)
  end
end

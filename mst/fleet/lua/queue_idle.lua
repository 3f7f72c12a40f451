-- KEYS: 1 a queue, 2 since when it is empty. ARGV: 1 TTL of the note (ms). Returns -1, or for how long (ms).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if redis.call('LLEN', KEYS[1]) > 0 then
  redis.call('DEL', KEYS[2])
  return -1
end
redis.call('SET', KEYS[2], string.format('%.0f', now), 'PX', ARGV[1], 'NX')
local since = tonumber(redis.call('GET', KEYS[2]))
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return now - since

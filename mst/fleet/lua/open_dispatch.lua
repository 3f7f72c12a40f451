-- KEYS: 1 head, 2 set of open dispatches. ARGV: 1 keep until (ms), 2 scope, then fields and values of the head.
local created = redis.call('EXISTS', KEYS[1]) == 0
if created then
  redis.call('HSET', KEYS[1], unpack(ARGV, 3))
end
redis.call('PEXPIREAT', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[1], ARGV[2])
local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
redis.call('PEXPIREAT', KEYS[2], top[2])
return created and 1 or 0

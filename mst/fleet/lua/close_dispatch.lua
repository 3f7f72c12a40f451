-- KEYS: 1 head, 2 set of open dispatches. ARGV: 1 scope. No attempt is granted afterwards.
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], 'closed', '1')
end
return 1

-- KEYS: 1 lock. ARGV: 1 owner, 2 TTL (ms). Taken or kept: 1; somebody else's: 0.
if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
  return 1
end
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0

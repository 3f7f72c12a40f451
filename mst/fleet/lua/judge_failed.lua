-- KEYS: 1 a dispatch's faults of judges. ARGV: 1 judge, 2 kind, 3 stop after, 4 why it is stopped then, 5 keep (ms).
-- Fields: `n:<judge>:<kind>` how many since the last verdict; `s:<judge>` why nobody asks it any more.
-- The reply: why nobody asks the judge any more, or ''.
local stopped = 's:' .. ARGV[1]
local count = redis.call('HINCRBY', KEYS[1], 'n:' .. ARGV[1] .. ':' .. ARGV[2], 1)
if count >= tonumber(ARGV[3]) then
  redis.call('HSETNX', KEYS[1], stopped, ARGV[4])
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return redis.call('HGET', KEYS[1], stopped) or ''

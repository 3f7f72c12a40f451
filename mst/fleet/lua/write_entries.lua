-- KEYS: 1 set of the dispatch's shards, then one entry each.
-- ARGV: 1 keep until (ms), then for each entry: shard, state, n, units, done, envelope.
-- An entry that is there already is left as it is, so writing again after a crash loses nothing.
local created = 0
for at = 2, #KEYS do
  local a = 2 + (at - 2) * 6
  if redis.call('EXISTS', KEYS[at]) == 0 then
    redis.call('HSET', KEYS[at], 'state', ARGV[a + 1], 'n', ARGV[a + 2], 'attemptId', '', 'worker', '', 'open', '0',
      'leaseUntilMs', '0', 'units', ARGV[a + 3], 'done', ARGV[a + 4], 'doneAtGrant', ARGV[a + 4], 'lost', '0',
      'idle', '0', 'reason', '', 'sentMs', '0', 'sends', '0', 'envelope', ARGV[a + 5])
    created = created + 1
  end
  redis.call('PEXPIREAT', KEYS[at], ARGV[1])
  redis.call('ZADD', KEYS[1], ARGV[a], ARGV[a])
end
redis.call('PEXPIREAT', KEYS[1], ARGV[1])
return created

-- ARGV: 2 reason. The flag is the dispatch's; every shard meets it at its next move.
redis.call('HSETNX', KEYS[1], 'cancel', ARGV[2])
cancel = redis.call('HGET', KEYS[1], 'cancel')
if FINAL[e.state] then
  return reply('ignored')
end
if has_lease() then
  go('cancel', e.state)
  save('cancel')
  return reply('pending')
end
go('cancel', 'cancelled')
finish_attempt()
e.reason = cancel
save('cancel')
return reply('cancelled')

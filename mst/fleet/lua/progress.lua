-- ARGV: 2 attempt ID, 3 durable units, 4 how many units started, their tokens, then the tokens of finished ones.
if not is_mine(ARGV[2]) or FINAL[e.state] then
  return lost(ARGV[2])
end
go('progress', e.state)
local started = tonumber(ARGV[4])
for at = 5, #ARGV do
  redis.call(at < 5 + started and 'SADD' or 'SREM', KEYS[3], ARGV[at])
end
local done = math.max(e.done, math.min(tonumber(ARGV[3]), e.units))
if done > e.done then
  e.done, e.sends = done, 0
end
save('progress')
return reply('yes')

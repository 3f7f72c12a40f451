-- ARGV: 2 units of the manifest that was seen in the store.
if e.state == 'committed' then
  return reply('yes')
end
go('commit', 'committed')
finish_attempt()
e.done = math.max(e.done, math.min(tonumber(ARGV[2]), e.units))
e.reason = ''
save('commit')
return reply('yes')

-- ARGV: 2 attempt ID.
if not (is_mine(ARGV[2]) and HELD[e.state]) then
  if is_mine(ARGV[2]) then
    return reply('ignored', 'lapsed')
  end
  return lost(ARGV[2])
end
go('start', 'running')
save('start')
return reply('yes')

-- ARGV: 2 attempt ID, 3 failed or cancelled, 4 reason.
if ARGV[2] == e.id and e.state == ARGV[3] then
  return reply('yes')
end
if not is_mine(ARGV[2]) or FINAL[e.state] then
  return lost(ARGV[2])
end
go('finish', ARGV[3])
finish_attempt()
e.reason = ARGV[4]
save('finish')
return reply('yes')

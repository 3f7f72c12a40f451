-- ARGV: 2 attempt ID, 3 '1' when its worker is known to be dead.
local died = ARGV[3] == '1'
if not (HELD[e.state] and ARGV[2] == e.id) or (has_lease() and not died) then
  return reply('ignored')
end
if cancel ~= '' then
  go('expire', 'cancelled')
  finish_attempt()
  e.reason = cancel
  save('expire')
  return reply('cancelled')
end
go('expire', 'queued')
e.lease = 0
if died then
  settle()
end
e.reason = died and 'died' or 'lapsed'
e.sends, e.sent = 0, 0
save('expire')
return reply(is_past_limit() and 'past_limit' or 'queued')

-- ARGV: 2 attempt ID, 3 reason.
local id, reason = ARGV[2], ARGV[3]
if id == e.id and not e.open and e.state ~= 'committed' and e.state ~= 'failed' then
  return reply('yes')
end
if not is_mine(id) or FINAL[e.state] then
  return lost(id)
end
local to = 'queued'
if cancel ~= '' then
  to = 'cancelled'
elseif reason == 'waiting_token' and e.state == 'running' then
  to = 'waiting_token'
end
go('give_back', to)
if UNCOUNTED[reason] then
  finish_attempt()
  if e.done > e.doneAtGrant then
    e.idle = 0
  end
else
  settle()
end
e.reason = reason
if BACKS_OFF[reason] then
  e.sends, e.sent = math.max(e.sends, 1), now
else
  e.sends, e.sent = 0, 0
end
save('give_back')
return reply('yes')

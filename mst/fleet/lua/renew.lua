-- ARGV: 2 attempt ID.
local id = ARGV[2]
if FINAL[e.state] or e.state == 'waiting_token' then
  return lost(id)
end
if is_mine(id) then
  local alive = has_lease()
  go('renew', e.state == 'queued' and 'running' or e.state)
  e.lease = now + terms.ttl
  save(not alive and 'revive' or nil)
  return reply(alive and 'yes' or 'revived')
end
-- A rebuilt entry knows only the numbers that left something in the store.
local number = number_of(id)
if not (number > e.n or (number == e.n and e.id == '')) then
  return lost(id)
end
go('renew', 'running')
settle()
e.n, e.id, e.open, e.lease, e.doneAtGrant = number, id, true, now + terms.ttl, e.done
save('revive')
return reply('revived')

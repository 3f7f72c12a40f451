-- ARGV: 2 token, 3 worker.
if has_lease() and e.id == int(e.n) .. '-' .. ARGV[2] then
  return reply('granted', '', e.id, poison())
end
if FINAL[e.state] or e.state == 'waiting_token' then
  return reply('refused', e.state)
end
if has_lease() then
  return reply('refused', 'leased')
end
if closed then
  return reply('refused', 'closed')
end
if cancel ~= '' then
  return reply('refused', 'cancelled')
end
if now > terms.deadline then
  return reply('refused', 'deadline')
end
if is_past_limit() then
  return reply('refused', 'past_limit')
end
go('acquire', 'leased')
settle()
e.n = e.n + 1
e.id = int(e.n) .. '-' .. ARGV[2]
e.worker, e.open, e.lease, e.doneAtGrant, e.reason = ARGV[3], true, now + terms.ttl, e.done, ''
save('acquire')
return reply('granted', '', e.id, poison())

if e.state ~= 'queued' then
  return reply('ignored')
end
go('sent', 'queued')
e.sent, e.sends = now, e.sends + 1
save(nil)
return reply('yes')

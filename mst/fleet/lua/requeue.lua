if e.state ~= 'waiting_token' then
  return reply('ignored')
end
go('requeue', 'queued')
e.reason, e.sends, e.sent = '', 0, 0
save('requeue')
return reply('queued')

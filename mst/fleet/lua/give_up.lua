local late = now > terms.deadline
local spent = is_past_limit()
if FINAL[e.state] or has_lease() or not (late or spent) then
  return reply('ignored')
end
go('give_up', 'failed')
settle()
e.reason = spent and 'limit' or 'deadline'
save('give_up')
return reply('yes')

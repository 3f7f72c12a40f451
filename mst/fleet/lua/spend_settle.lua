-- KEYS: 1 the run's spending. ARGV: 1 unit:attempt, 2 tokens, 3 USD, 4 keep (ms). See spend_reserve. Repeating is harmless.
local function numbers(text, count)
  local out = {}
  for one in string.gmatch(text or '', '%S+') do
    out[#out + 1] = tonumber(one)
  end
  for at = #out + 1, count do
    out[at] = 0
  end
  return out
end
local field = 'e:' .. ARGV[1]
local before = numbers(redis.call('HGET', KEYS[1], field), 3)
local sum = numbers(redis.call('HGET', KEYS[1], 'sum'), 2)
local settled = numbers(redis.call('HGET', KEYS[1], 'settled'), 3)
local tokens, usd = tonumber(ARGV[2]), tonumber(ARGV[3])
sum[1], sum[2] = sum[1] + tokens - before[1], sum[2] + usd - before[2]
if before[3] == 1 then
  settled[1], settled[2], settled[3] = settled[1] - 1, settled[2] - before[1], settled[3] - before[2]
end
redis.call('HSET', KEYS[1], field, string.format('%.3f %.9g 1', tokens, usd),
  'sum', string.format('%.3f %.12g', sum[1], sum[2]),
  'settled', string.format('%.0f %.3f %.12g', settled[1] + 1, settled[2] + tokens, settled[3] + usd))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1

-- KEYS: 1 the run's spending. ARGV: 1 unit:attempt, 2 cap in tokens (or ''), 3 cap in USD (or ''), 4 keep (ms).
-- Fields: `e:<unit>:<attempt>` "<tokens> <usd> <settled>"; `sum` "<tokens> <usd>"; `settled` "<count> <tokens> <usd>".
-- The reply: '' when the unit may start (its estimate is set aside then), or tokens and USD that are spent or set aside.
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
if redis.call('HEXISTS', KEYS[1], field) == 1 then
  return ''
end
local sum = numbers(redis.call('HGET', KEYS[1], 'sum'), 2)
if (ARGV[2] ~= '' and sum[1] >= tonumber(ARGV[2])) or (ARGV[3] ~= '' and sum[2] >= tonumber(ARGV[3])) then
  return string.format('%.0f %.9g', sum[1], sum[2])
end
local settled = numbers(redis.call('HGET', KEYS[1], 'settled'), 3)
local tokens, usd = 0, 0
if settled[1] > 0 then
  tokens, usd = settled[2] / settled[1], settled[3] / settled[1]
end
redis.call('HSET', KEYS[1], field, string.format('%.3f %.9g 0', tokens, usd),
  'sum', string.format('%.3f %.12g', sum[1] + tokens, sum[2] + usd))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return ''

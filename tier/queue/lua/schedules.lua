#!lua flags=allow-oom
-- Lists schedules, those that are due or all, and tells how long it is until the next of the rest. Changes nothing.
-- KEYS[1] schedules    HASH  only looked at
-- KEYS[2] occurrences  ZSET  only looked at
-- ARGV[1] which        'due' | 'all'
-- ARGV[2] count        at most
-- Replies {unix ms now, revision of the declarations, ms until the next of the rest or -1, {{name, next ms or '', declaration or '',
--   '' | '<ms> <job>' of the last job}, ...}}; those due in the order of their times
local schedules, occurrences = KEYS[1], KEYS[2]
local which, count = ARGV[1], tonumber(ARGV[2])
local call = redis.call

local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local text = string.format('%.0f', now)
local rows, found = {}, {}
if which == 'due' then
  found = call('ZRANGEBYSCORE', occurrences, '-inf', text, 'LIMIT', 0, count)
else
  local fields, seen = call('HKEYS', schedules), {['']=true}
  for _, name in ipairs(call('ZRANGE', occurrences, 0, -1)) do fields[#fields + 1] = name end
  for _, field in ipairs(fields) do
    local name = string.match(field, '^[^:]*')
    if not seen[name] and #found < count then found[#found + 1] = name end
    seen[name] = true
  end
end
for i, name in ipairs(found) do
  local at = call('ZSCORE', occurrences, name)
  local row = call('HMGET', schedules, name, name .. ':last')
  rows[i] = {name, at and string.format('%.0f', at) or '', row[1] or '', row[2] or ''}
end
local rest = call('ZRANGEBYSCORE', occurrences, '(' .. text, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
return {text, call('HGET', schedules, '') or '0', rest and string.format('%.0f', rest - now) or '-1', rows}

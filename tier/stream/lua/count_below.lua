#!lua flags=allow-oom
-- Counts the entries below a place, from another on, without what they hold. A page of them.
-- KEYS[1] log    STREAM  only looked at
-- ARGV[1] from   id after '(', or '-'
-- ARGV[2] below  id after '(', or '+'
-- ARGV[3] page   entries
-- Replies {how many, id of the last of them or ''}
local log, from, below, page = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

local n, last = 0, ''
while n < page do -- by 100, since all of them at once may be large
  local entries = redis.call('XRANGE', log, from, below, 'COUNT', math.min(100, page - n))
  if #entries == 0 then break end
  n, last = n + #entries, entries[#entries][1]
  from = '(' .. last
end
return {n, last}

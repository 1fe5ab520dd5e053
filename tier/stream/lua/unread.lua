#!lua flags=allow-oom
-- Finds the first entry after each of some places, without what it holds.
-- KEYS[1] log      STREAM
-- ARGV[1..] after  ids
-- Replies {id or '', ...}
local log = KEYS[1]

local firsts = {}
for i = 1, #ARGV do
  local entry = redis.call('XRANGE', log, '(' .. ARGV[i], '+', 'COUNT', 1)[1]
  firsts[i] = entry and entry[1] or ''
end
return firsts

#!lua flags=allow-oom
-- Where entries of a group stand, all at one moment, for the audit.
-- KEYS[1] log      STREAM  only looked at
-- KEYS[2] retry    ZSET    only looked at
-- KEYS[3] open     HASH    only looked at
-- ARGV[1] group    name
-- ARGV[2..] entries  ids
-- Replies {parked 0 | 1, row in open or '', pending 0 | 1, in the log 0 | 1, ... for each entry}; {} when there is no such group
local log, retry, open = KEYS[1], KEYS[2], KEYS[3]
local group = ARGV[1]
local call = redis.call

local there = false
if call('EXISTS', log) == 1 then
  for _, g in ipairs(call('XINFO', 'GROUPS', log)) do there = there or g[2] == group end
end
if not there then return {} end
local stand = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  stand[#stand + 1] = call('ZSCORE', retry, id) and 1 or 0
  stand[#stand + 1] = call('HMGET', open, id)[1] or ''
  local is_id = string.match(id, '^%d+%-%d+$')
  stand[#stand + 1] = is_id and call('XPENDING', log, group, id, id, 1)[1] and 1 or 0
  stand[#stand + 1] = is_id and call('XRANGE', log, id, id)[1] and 1 or 0
end
return stand

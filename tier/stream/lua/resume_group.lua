#!lua flags=allow-oom
-- Resumes a group: paused -> handing out.
-- KEYS[1] log      STREAM  only looked at
-- KEYS[2] group    HASH
-- ARGV[1] name     of the group
-- Replies 1 | 0 when it was not paused | -1 when there is no such group
local log, group = KEYS[1], KEYS[2]
local name = ARGV[1]
local call = redis.call

if call('EXISTS', log) == 0 then return -1 end
local there = false
for _, g in ipairs(call('XINFO', 'GROUPS', log)) do there = there or g[2] == name end
if not there then return -1 end
return call('HDEL', group, 'paused')

#!lua flags=allow-oom
-- Pauses a group: handing out -> paused. Its members learn it from takeover.lua and due.lua, and read nothing more; what
-- they hold they settle. It runs on a full server, since it may be what the consumers do that fills it.
-- KEYS[1] log      STREAM  only looked at
-- KEYS[2] group    HASH
-- ARGV[1] name     of the group
-- Replies 1 | 0 when it was paused already | -1 when there is no such group
local log, group = KEYS[1], KEYS[2]
local name = ARGV[1]
local call = redis.call

if call('EXISTS', log) == 0 then return -1 end
local there = false
for _, g in ipairs(call('XINFO', 'GROUPS', log)) do there = there or g[2] == name end
if not there then return -1 end
local t = call('TIME')
return call('HSETNX', group, 'paused', string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)))

#!lua flags=allow-oom
-- Pauses a cursor, whoever owns it: read -> paused. Its owner learns it from acquire.lua, keep.lua and due_owned.lua, and
-- reads nothing more; what it holds it commits. It runs on a full server, as pause_group.lua.
-- KEYS[1] cursors  HASH
-- ARGV[1] name     of the cursor
-- Replies 1 | 0 when it was paused already | -1 when there is no such cursor
local cursors = KEYS[1]
local name = ARGV[1]
local call = redis.call

if call('HEXISTS', cursors, name .. ':epoch') == 0 then return -1 end
local t = call('TIME')
return call('HSETNX', cursors, name .. ':paused', string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)))

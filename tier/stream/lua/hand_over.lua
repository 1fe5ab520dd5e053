#!lua flags=allow-oom
-- Hands a cursor over to whoever asks next: owned -> free.
-- KEYS[1] cursors  HASH
-- ARGV[1] name     of the cursor
-- ARGV[2] member   who owns it
-- ARGV[3] epoch    of the ownership
-- Replies 1 | 0 when it was another's, or nobody's, already
local cursors = KEYS[1]
local name, member, epoch = ARGV[1], ARGV[2], ARGV[3]

local c = redis.call('HMGET', cursors, name .. ':owner', name .. ':epoch')
if c[1] ~= member or c[2] ~= epoch then return 0 end
redis.call('HSET', cursors, name .. ':owner', '', name .. ':until', '0')
return 1

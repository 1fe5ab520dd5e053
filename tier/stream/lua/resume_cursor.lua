#!lua flags=allow-oom
-- Resumes a cursor: paused -> read.
-- KEYS[1] cursors  HASH
-- ARGV[1] name     of the cursor
-- Replies 1 | 0 when it was not paused | -1 when there is no such cursor
local cursors = KEYS[1]
local name = ARGV[1]

if redis.call('HEXISTS', cursors, name .. ':epoch') == 0 then return -1 end
return redis.call('HDEL', cursors, name .. ':paused')

#!lua flags=allow-oom
-- Keeps the ownership of a cursor: owned -> owned, for another lease, by the server's clock.
-- KEYS[1] log      STREAM
-- KEYS[2] cursors  HASH
-- ARGV[1] name     of the cursor
-- ARGV[2] member   who owns it
-- ARGV[3] epoch    of the ownership
-- ARGV[4] reach    last entry that was read
-- Replies 1 | 0 when the cursor is paused, and kept | -1 when fenced: it is another's, or the log is another one than it was
local log, cursors = KEYS[1], KEYS[2]
local name, member, epoch, reach = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call

local c = call('HMGET', cursors, name .. ':owner', name .. ':epoch', name .. ':lease', name .. ':added', name .. ':paused')
if c[1] ~= member or c[2] ~= epoch then return -1 end
local added = 0
if call('EXISTS', log) == 1 then
  local info = call('XINFO', 'STREAM', log)
  for i = 1, #info, 2 do
    if info[i] == 'entries-added' then added = info[i + 1] end
  end
end
if added < tonumber(c[4]) then return -1 end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
call('HSET', cursors, name .. ':until', string.format('%.0f', now + c[3]), name .. ':reach', reach, name .. ':added', added)
return c[5] and 0 or 1

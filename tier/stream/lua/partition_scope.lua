#!lua
-- Says how many partitions a scope has: unused -> partitioned, or one layout -> the next. A no-op when it says so already.
-- The scope itself is used for nothing else then.
-- KEYS[1] scope     HASH
-- ARGV[1] layout    '8', or '8>16' while it is changed
-- ARGV[2] before    the layout that it has now, or that is asked for already; '' is none
-- Replies {'ok', ''} | {'layout', the one that it has or ''} | {'partition', its mark}: it is a partition itself
--   | {'used', a stream of its own}
local scope, layout, before = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call

local have = call('HMGET', scope, 'partitions', 'partition')
if have[2] then return {'partition', have[2]} end
if have[1] == layout then return {'ok', ''} end
if before ~= (have[1] or '') then return {'layout', have[1] or ''} end
local row = call('HGETALL', scope)
for i = 1, #row, 2 do
  local stream = string.match(row[i], '^stream:(.*)$')
  if stream and string.sub(row[i + 1], 1, 1) ~= '-' then return {'used', stream} end
end
call('HSET', scope, 'partitions', layout)
return {'ok', ''}

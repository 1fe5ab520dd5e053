#!lua
-- Says which partition a scope is, of how many: unused -> a partition, or one layout -> the next, of its streams too, so that
-- whoever appends by another layout is refused from here on. A no-op when it says so already.
-- KEYS[1] scope     HASH
-- ARGV[1] of        name of the partitioned scope
-- ARGV[2] index     of the partition
-- ARGV[3] layout    '8', or '8>16' while it is changed
-- ARGV[4] before    the layout that it has now, or that is asked for already; '' is none
-- Replies {'ok', ''} | {'layout', the one that it has or ''} | {'partition', its mark}: it is one of another scope
--   | {'used', a stream of its own} | {'partitioned', its layout}: it has partitions itself
local scope, of, index, layout, before = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call

local have = call('HMGET', scope, 'partition', 'partitions')
if have[2] then return {'partitioned', have[2]} end
local whose, which, now = string.match(have[1] or '', '^(%S+) (%S+) (%S+)$')
if have[1] and (whose ~= of or which ~= index) then return {'partition', have[1]} end
if now == layout then return {'ok', ''} end
if before ~= (now or '') then return {'layout', now or ''} end
local change = {scope, 'partition', of .. ' ' .. index .. ' ' .. layout}
local row = call('HGETALL', scope)
for i = 1, #row, 2 do
  local stream = string.match(row[i], '^stream:(.*)$')
  if stream then
    local brand = string.match(row[i + 1], '^(.*) partition %S+$')
    if not now and string.sub(row[i + 1], 1, 1) ~= '-' then return {'used', stream} end
    if brand then
      change[#change + 1] = row[i]
      change[#change + 1] = brand .. ' partition ' .. index .. '/' .. layout
    end
  end
end
for i = 2, #change, 1000 do call('HSET', scope, unpack(change, i, math.min(i + 999, #change))) end
return {'ok', ''}

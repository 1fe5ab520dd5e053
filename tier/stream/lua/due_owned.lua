#!lua flags=allow-oom
-- Takes parked entries of a cursor up again that are due: parked -> taken up, one more delivery; until its owner settles
-- it, it stays in retry, 2^52 ms later. One that was trimmed meanwhile is gone, and answered without fields.
-- KEYS[1] log      STREAM
-- KEYS[2] cursors  HASH
-- KEYS[3] retry    ZSET
-- KEYS[4] open     HASH
-- ARGV[1] name     of the cursor
-- ARGV[2] member   who owns it
-- ARGV[3] epoch    of the ownership
-- ARGV[4] want     entries to take at most; 0 to learn when the next is due
-- Replies as due.lua
local log, cursors, retry, open = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, member, epoch, want = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call
local taken = 4503599627370496

local c = call('HMGET', cursors, name .. ':owner', name .. ':epoch', name .. ':paused')
if c[1] ~= member or c[2] ~= epoch then return {-1, -1, {}, {}, {}, 0} end
if c[3] then return {0, -1, {}, {}, {}, 0} end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for _, cmd in ipairs({{'ZADD', retry, '0', 'm'}, {'ZREM', retry, 'm'}, {'HSET', open, 'f', ''}, {'HGET', open, 'f'}, {'HDEL', open, 'f'},
  {'XRANGE', log, '0-1', '0-1'}, {'ZRANGEBYSCORE', retry, '0', '1'}, {'ZRANGE', retry, '0', '0'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local ids, entries, rows = {}, {}, {}
local due = call('ZRANGEBYSCORE', retry, '-inf', string.format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, want)
for i = 1, #due, 2 do
  local id, entry = due[i], call('XRANGE', log, due[i], due[i])[1]
  local was, rest = string.match(call('HGET', open, id) or '0', '^(%d+)(.*)$')
  ids[#ids + 1] = id
  ids[#ids + 1] = was + 1
  if entry then
    call('ZADD', retry, string.format('%.0f', due[i + 1] + taken), id)
    entries[#entries + 1] = entry
    rows[#rows + 1] = was .. rest
    local again = {was + 1} -- as the next owner finds it, if this one dies: one delivery and one attempt more
    for index, attempt, at in string.gmatch(rest, '(%d+) (%d+) (%d+)') do again[#again + 1] = string.format('%s %d %s', index, attempt + 1, at) end
    call('HSET', open, id, table.concat(again, ' '))
  else
    call('ZREM', retry, id)
    call('HDEL', open, id)
  end
end
local next_due = call('ZRANGE', retry, 0, 0, 'WITHSCORES')[2]
local wait = next_due and tonumber(next_due) < taken and math.max(0, next_due - now) or -1
return {1, wait, ids, entries, rows, now}

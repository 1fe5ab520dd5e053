#!lua flags=allow-oom
-- Takes parked entries of a cursor up again that are due: parked -> taken up, one more delivery; until its owner settles
-- it, it stays in retry, 2^52 ms later. One that was trimmed meanwhile is gone, and answered without fields. What was taken
-- up by a call without an answer: taken up -> parked as it was, since nobody has begun it.
-- KEYS[1] log      STREAM
-- KEYS[2] cursors  HASH
-- KEYS[3] retry    ZSET
-- KEYS[4] open     HASH
-- ARGV[1] name     of the cursor
-- ARGV[2] member   who owns it
-- ARGV[3] epoch    of the ownership
-- ARGV[4] want     entries to take at most; 0 to learn when the next is due
-- ARGV[5] unheard  '1' when there may have been such a call, else ''
-- ARGV[6..] held   entries that the owner knows to have taken up, if there may have been one
-- Replies as due.lua
local log, cursors, retry, open = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, member, epoch, want, unheard = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
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
local function row(was, rest, more) -- with so many deliveries and attempts more
  local parts = {was + more}
  for index, attempt, at in string.gmatch(rest, '(%d+) (%d+) (%d+)') do parts[#parts + 1] = string.format('%s %d %s', index, attempt + more, at) end
  return table.concat(parts, ' ')
end
if unheard then
  local held = {}
  for i = 6, #ARGV do held[ARGV[i]] = true end
  local up = call('ZRANGEBYSCORE', retry, string.format('%.0f', taken), '+inf', 'WITHSCORES')
  for i = 1, #up, 2 do
    local was, rest = string.match(call('HGET', open, up[i]) or '1', '^(%d+)(.*)$')
    if not held[up[i]] then
      call('ZADD', retry, string.format('%.0f', up[i + 1] - taken), up[i])
      call('HSET', open, up[i], row(was, rest, -1))
    end
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
    call('HSET', open, id, row(was, rest, 1)) -- as the next owner finds it, if this one dies
  else
    call('ZREM', retry, id)
    call('HDEL', open, id)
  end
end
local next_due = call('ZRANGE', retry, 0, 0, 'WITHSCORES')[2]
local wait = next_due and tonumber(next_due) < taken and math.max(0, next_due - now) or -1
return {1, wait, ids, entries, rows, now}

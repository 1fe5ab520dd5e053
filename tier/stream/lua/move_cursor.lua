#!lua flags=allow-oom
-- Moves a cursor to another start: free or owned -> free, with a higher epoch, which fences the owner. What was parked is
-- forgotten; what the log holds counts as a replay.
-- KEYS[1] log      STREAM
-- KEYS[2] cursors  HASH
-- KEYS[3] retry    ZSET
-- KEYS[4] open     HASH
-- ARGV[1] name     of the cursor
-- ARGV[2] after    id after which it reads; '$' for what is new
-- ARGV[3] start    the first message's id as declared
-- Replies 1 | -1 when there is no such cursor
local log, cursors, retry, open = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, after, start = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

local epoch = call('HGET', cursors, name .. ':epoch')
if not epoch then return -1 end
local last, added, length = '0-0', 0, 0
if call('EXISTS', log) == 1 then
  local info = call('XINFO', 'STREAM', log)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = info[i + 1] end
    if info[i] == 'length' then length = info[i + 1] end
    if info[i] == 'entries-added' then added = info[i + 1] end
  end
end
for _, cmd in ipairs({{'HSET', cursors, 'f', ''}, {'DEL', retry, open}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
if after == '$' then after = last end
local passed = after == last and added or after == '0-0' and added - length or ''
call('DEL', retry, open)
call('HSET', cursors, name .. ':owner', '', name .. ':until', '0', name .. ':epoch', string.format('%.0f', epoch + 1), name .. ':commit', '0',
  name .. ':start', start, name .. ':at', after, name .. ':above', '', name .. ':reach', after, name .. ':crashes', '0', name .. ':live', last,
  name .. ':added', added, name .. ':passed', passed)
return 1

#!lua flags=allow-oom
-- Says that a member of a partitioned cursor is there: absent or silent -> there; leaving -> absent. Who was silent for a lease
-- is dropped, and whose beat lies further ahead than one, since the clock was set back. By the server's clock.
-- KEYS[1] members  ZSET  unix ms of the last sign of life -> member
-- ARGV[1] member   name
-- ARGV[2] lease    ms
-- ARGV[3] leaves   '1' when it leaves
-- Replies {member, ...} of those that are there, sorted by name
local members = KEYS[1]
local member, lease, leaves = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local call = redis.call

for _, cmd in ipairs({{'ZADD', members, '0', 'm'}, {'ZREM', members, 'm'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local rows, there, gone = call('ZRANGE', members, 0, -1, 'WITHSCORES'), {}, {}
for i = 1, #rows, 2 do
  local silent = math.abs(now - rows[i + 1]) > lease
  if rows[i] == member and leaves or rows[i] ~= member and silent then
    gone[#gone + 1] = rows[i]
  elseif rows[i] ~= member then
    there[#there + 1] = rows[i]
  end
end
if not leaves then
  call('ZADD', members, string.format('%.0f', now), member)
  there[#there + 1] = member
end
if #gone > 0 then call('ZREM', members, unpack(gone, 1, math.min(#gone, 4000))) end
table.sort(there)
return there

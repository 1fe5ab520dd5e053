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

for _, cmd in ipairs({{'ZADD', members, '0', 'm'}, {'ZREM', members, 'm'}, {'ZREMRANGEBYSCORE', members, '0', '0'}, {'ZRANGE', members, '0', '-1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if leaves then
  call('ZREM', members, member)
else
  call('ZADD', members, string.format('%.0f', now), member)
end
call('ZREMRANGEBYSCORE', members, '-inf', string.format('(%.0f', now - lease))
call('ZREMRANGEBYSCORE', members, string.format('(%.0f', now + lease), '+inf')
local there = call('ZRANGE', members, 0, -1)
table.sort(there)
return there

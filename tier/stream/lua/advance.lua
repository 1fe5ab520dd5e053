#!lua flags=allow-oom
-- Settles for the owner of a cursor: commit n -> commit n + 1, with the checkpoint and what is through above it, and
-- entries that were taken up again -> gone. A repeated call changes nothing.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] cursors  HASH
-- KEYS[2] retry    ZSET
-- KEYS[3] open     HASH
-- ARGV[1] name     of the cursor
-- ARGV[2] member   who owns it
-- ARGV[3] epoch    of the ownership
-- ARGV[4] commit   its number: last + 1
-- ARGV[5] at       checkpoint: every entry at or below it is through
-- ARGV[6] above    entries above it that are through, apart by spaces
-- ARGV[7] passed   how many entries of the log there ever were up to the checkpoint; '' when that is not known
-- ARGV[8..] taken  entries that were parked, and are settled
-- Replies 1 | 0 when it was done before | -1 when fenced
local cursors, retry, open = KEYS[1], KEYS[2], KEYS[3]
local name, member, epoch, commit, at, above, passed = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7]
local call = redis.call

local c = call('HMGET', cursors, name .. ':owner', name .. ':epoch', name .. ':commit')
if c[1] ~= member or c[2] ~= epoch then return -1 end
if tonumber(c[3]) == commit then return 0 end
if tonumber(c[3]) ~= commit - 1 then return -1 end
for _, cmd in ipairs({{'HSET', cursors, 'f', ''}, {'ZREM', retry, 'm'}, {'HDEL', open, 'f'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
for i = 8, #ARGV do
  call('ZREM', retry, ARGV[i])
  call('HDEL', open, ARGV[i])
end
call('HSET', cursors, name .. ':commit', string.format('%.0f', commit), name .. ':at', at, name .. ':above', above, name .. ':passed', passed)
return 1

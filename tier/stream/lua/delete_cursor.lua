#!lua flags=allow-oom
-- Deletes a cursor: free or owned -> deleted, with a mark that tells its members that it was meant to go.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] cursors  HASH
-- KEYS[2] retry    ZSET
-- KEYS[3] open     HASH
-- ARGV[1] name     of the cursor
-- Replies 1 | -1 when there is no such cursor
local cursors, retry, open = KEYS[1], KEYS[2], KEYS[3]
local name = ARGV[1]
local call = redis.call

if call('HEXISTS', cursors, name .. ':epoch') == 0 then return -1 end
for _, cmd in ipairs({{'HSET', cursors, 'f', ''}, {'HDEL', cursors, 'f'}, {'DEL', retry, open}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local t = call('TIME')
call('DEL', retry, open)
for _, f in ipairs({'owner', 'epoch', 'until', 'lease', 'start', 'at', 'above', 'commit', 'reach', 'crashes', 'live', 'added', 'passed', 'paused'}) do
  call('HDEL', cursors, name .. ':' .. f)
end
call('HSET', cursors, name .. ':deleted', string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)))
return 1

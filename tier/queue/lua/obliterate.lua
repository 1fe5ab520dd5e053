#!lua flags=allow-oom
-- Deletes keys of a paused queue. That of the queue itself, which says that it is paused, goes last and with no other.
-- KEYS[1] queue    HASH
-- KEYS[2..] keys   ANY
-- ARGV[1] last     '1' to delete the queue's own key
-- Replies how many keys were deleted, or -1 when the queue is not paused
local queue = KEYS[1]
local last = ARGV[1]
local call = redis.call

if not call('HGET', queue, 'paused') then return -1 end
if not redis.acl_check_cmd('UNLINK', queue) then -- asked first, since it must not show halfway
  return redis.error_reply("NOPERM the user has no permissions to run the 'unlink' command")
end
local gone = 0
for i = 2, #KEYS do gone = gone + call('UNLINK', KEYS[i]) end
if last == '1' then gone = gone + call('UNLINK', queue) end
return gone

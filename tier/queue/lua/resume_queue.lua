#!lua flags=allow-oom
-- Resumes a queue: paused -> handing out; the bell rings for every worker.
-- KEYS[1] queue    HASH
-- KEYS[2] workers  HASH  only looked at
-- KEYS[3] wake     LIST
-- Replies 1 | 0 when it was not paused
local queue, workers, wake = KEYS[1], KEYS[2], KEYS[3]
local call = redis.call

local bells = math.floor(call('HLEN', workers) / 2) - call('LLEN', wake)
if not redis.acl_check_cmd('RPUSH', wake, '1') then -- asked first, since it must not show halfway
  return redis.error_reply("NOPERM the user has no permissions to run the 'rpush' command")
end
local paused = call('HDEL', queue, 'paused')
for _ = 1, bells do call('RPUSH', wake, '1') end
return paused

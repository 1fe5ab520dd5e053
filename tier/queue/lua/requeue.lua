#!lua flags=allow-oom
-- Takes dead jobs up again: dead -> scheduled, due at once, with all their attempts before them. What they had come to is dropped.
-- KEYS[1] jobs     HASH
-- KEYS[2] due      ZSET
-- KEYS[3] dead     ZSET
-- KEYS[4] workers  HASH  only looked at
-- KEYS[5] wake     LIST
-- KEYS[6..] results  LIST  of the jobs
-- ARGV[1..] ids    of the jobs
-- Replies for each job 1 | 0 when it is not dead
local jobs, due, dead, workers, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local call = redis.call

local t = call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local rows = call('HMGET', jobs, unpack(ARGV))
local bells = math.floor(call('HLEN', workers) / 2) - call('LLEN', wake)
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'ZREM', dead, 'm'}, {'ZADD', due, '0', 'm'}, {'HSET', jobs, 'f', ''}, {'DEL', due}, {'RPUSH', wake, '1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local out, any = {}, false
for i = 1, #ARGV do
  local name = string.match(rows[i] or '', '^d %d+ %d+ (.+)$')
  out[i] = name and call('ZREM', dead, ARGV[i]) or 0
  if out[i] == 1 then
    any = true
    call('ZADD', due, now, ARGV[i])
    call('HSET', jobs, ARGV[i], 'r ' .. now .. ' 0 ' .. name)
    local result = KEYS[5 + i]
    call('DEL', result)
  end
end
if any and bells > 0 then call('RPUSH', wake, '1') end
return out

#!lua flags=allow-oom
-- Retires members that hold nothing and have not beaten for long: member -> gone. Consumers of raw clients stay.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- ARGV[1] group    name
-- ARGV[2] silence  ms without a beat
-- Replies how many were retired, or -1 when there is no log
local log, owners = KEYS[1], KEYS[2]
local group, silence = ARGV[1], tonumber(ARGV[2])

if redis.call('EXISTS', log) == 0 then return -1 end
local pending = {}
for _, c in ipairs(redis.call('XINFO', 'CONSUMERS', log, group)) do pending[c[2]] = c[4] end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local retired = 0
if not redis.acl_check_cmd('HDEL', owners, '-') then -- asked first, since it must not show halfway
  return redis.error_reply("NOPERM the user has no permissions to run the 'hdel' command")
end
local rows = redis.call('HGETALL', owners)
for i = 1, #rows, 2 do
  local member = string.match(rows[i], '^(.*):beat$')
  if member and now - tonumber(rows[i + 1]) > silence and (pending[member] or 0) == 0 then
    redis.call('XGROUP', 'DELCONSUMER', log, group, member)
    redis.call('HDEL', owners, member, rows[i])
    retired = retired + 1
  end
end
return retired

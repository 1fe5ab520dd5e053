#!lua
-- Declares schedules: absent -> declared, declared -> declared otherwise, or absent; all of them or none, and only as the
-- caller has read them.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] schedules    HASH
-- KEYS[2] occurrences  ZSET
-- ARGV[1] revision     of the declarations, as the caller has read it
-- ARGV[2..]            for each: name, its declaration or '' to remove it, its first occurrence in ms or '' to keep the next
-- Replies 1 | 0 (others have declared meanwhile) | -1 (a first occurrence has passed)
local schedules, occurrences = KEYS[1], KEYS[2]
local revision = ARGV[1]
local args = 3
local call = redis.call

if (call('HGET', schedules, '') or '0') ~= revision then return 0 end
call('ZCARD', occurrences)
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for _, cmd in ipairs({{'HSET', schedules, 'f', ''}, {'HDEL', schedules, 'f'}, {'ZADD', occurrences, '0', 'm'}, {'ZREM', occurrences, 'm'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
for i = 2, #ARGV, args do
  local first = ARGV[i + 2]
  if first ~= '' and tonumber(first) <= now then return -1 end
end
for i = 2, #ARGV, args do
  local name, declaration, first = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if declaration == '' then
    call('HDEL', schedules, name, name .. ':last')
    call('ZREM', occurrences, name)
  else
    call('HSET', schedules, name, declaration)
    if first ~= '' then call('ZADD', occurrences, first, name) end
  end
end
call('HSET', schedules, '', string.format('%.0f', revision + 1))
return 1

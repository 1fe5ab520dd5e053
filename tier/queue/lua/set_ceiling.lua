#!lua flags=allow-oom
-- Sets the ceiling of a queue, how many of its jobs may be active at once, and counts those of the lanes that were declared. From
-- then on claims count, and what ends jobs. The bell rings for what there is room for.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] active   HASH  lane -> how many of its jobs are; without a ceiling nothing
-- KEYS[2] leased   ZSET  only looked at
-- KEYS[3] workers  HASH  only looked at
-- KEYS[4] wake     LIST
-- KEYS[5..] logs   STREAM  of lanes, only looked at
-- ARGV[1] ceiling  above 0, 0 for none, or '' to leave it
-- ARGV[2..]        names of the lanes
-- Replies lanes to be declared next, when none was: those that may have active jobs, or are counted
local active, leased, workers, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ceiling = ARGV[1]
local call = redis.call

local bells = math.floor(call('HLEN', workers) / 2) - call('LLEN', wake)
local lanes = call('ZRANGE', leased, 0, -1)
if ceiling == '' then ceiling = string.match(call('HGET', active, '') or '', '^%d+ (%d+)$') or '0' end
local pending = {}
for i = 2, #ARGV do
  local log = KEYS[i + 3]
  pending[i] = call('EXISTS', log) == 1 and call('XPENDING', log, 'w')[1] or 0
end
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'DEL', active}, {'HSET', active, 'f', ''}, {'HDEL', active, 'f'}, {'HGETALL', active}, {'RPUSH', wake, '1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
if ceiling == '0' then
  call('DEL', active)
  lanes = {}
else
  for i, n in pairs(pending) do
    if n > 0 then call('HSET', active, ARGV[i], n) else call('HDEL', active, ARGV[i]) end
  end
  local rows, sum = call('HGETALL', active), 0
  for i = 1, #rows, 2 do
    if rows[i] ~= '' then
      lanes[#lanes + 1] = rows[i]
      sum = sum + rows[i + 1]
    end
  end
  call('HSET', active, '', string.format('%.0f %s', sum, ceiling))
  bells = math.min(bells, ceiling - sum)
end
for _ = 1, bells do call('RPUSH', wake, '1') end
return #ARGV == 1 and lanes or {}

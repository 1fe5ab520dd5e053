#!lua flags=allow-oom
-- A member learns its number and what it holds in the lanes that were declared: unknown -> member; member -> member. Numbers come
-- from the clock, so that one given anew differs from any before.
-- KEYS[1] workers  HASH
-- KEYS[2] queue    HASH
-- KEYS[3] leased   ZSET  only looked at
-- KEYS[4..] logs   STREAM  of lanes, only looked at
-- ARGV[1] member   name
-- ARGV[2] lease    ms to agree on, or 0
-- ARGV[3] default  ms: of a queue that has none, when 0 is asked for
-- ARGV[4] max      jobs to answer with
-- ARGV[5..]        names of the lanes
-- Replies {number, lease in ms, {{number of the lane, deliveries, entry}, ...}, lanes with active jobs that were not declared,
--   the server's unix ms}
local workers, queue, leased = KEYS[1], KEYS[2], KEYS[3]
local member, lease, default, max = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local call = redis.call

-- Asked first, since a right that is lacking must not show after a call without lanes.
for _, cmd in ipairs({{'EXISTS', leased}, {'XPENDING', leased, 'w'}, {'XRANGE', leased, '-', '+'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local held, declared = {}, {}
for i = 4, #KEYS do
  local log = KEYS[i]
  declared[ARGV[i + 1]] = true
  if call('EXISTS', log) == 1 and max > #held then
    for _, p in ipairs(call('XPENDING', log, 'w', '-', '+', max - #held, member)) do
      held[#held + 1] = {i - 3, p[4], call('XRANGE', log, p[1], p[1])[1]}
    end
  end
end
local t = call('TIME')
local others = {}
for _, name in ipairs(call('ZRANGE', leased, 0, -1)) do
  if not declared[name] then others[#others + 1] = name end
end
local agreed = call('HGET', queue, 'lease')
if not agreed then
  agreed = lease ~= '0' and lease or default
  call('HSET', queue, 'lease', agreed)
end
local number = call('HGET', workers, member)
if not number then
  number = string.format('%d%06d', t[1], t[2])
  call('HSET', workers, member, number)
end
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
call('HSET', workers, member .. ':beat', now)
return {number, agreed, held, others, now}

#!lua flags=allow-oom
-- Hands jobs back: active -> active with the same member, but free to be taken over by anyone, now or after a delay. When it is
-- now, a worker wakes for each of them, and looks.
-- KEYS[1] workers  HASH  only looked at
-- KEYS[2] leased   ZSET
-- KEYS[3] wake     LIST
-- KEYS[4..] logs   STREAM  of lanes
-- ARGV[1] member   name
-- ARGV[2] number   of the member
-- ARGV[3] idle     ms that the jobs shall look idle for
-- ARGV[4] delay    ms until lanes are to be looked at
-- ARGV[5..]        for each lane its name, how many jobs, and for each its entry and the deliveries in the lane that count
-- Replies how many were held, or -1 when fenced
local workers, leased, wake = KEYS[1], KEYS[2], KEYS[3]
local member, number, idle, delay = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call

if call('HGET', workers, member) ~= number then return -1 end
for i = 4, #KEYS do call('XLEN', KEYS[i]) end
local bells = math.floor(call('HLEN', workers) / 2) - call('LLEN', wake)
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'ZADD', leased, '0', 'm'}, {'RPUSH', wake, '1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local t = call('TIME')
local look = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) + delay)
local held, at = 0, 5
for i = 4, #KEYS do
  local log = KEYS[i]
  local name, n = ARGV[at], ARGV[at + 1]
  local there = call('EXISTS', log) == 1
  for k = at + 2, at + 1 + 2 * n, 2 do
    if there and call('XCLAIM', log, 'w', member, 0, ARGV[k], 'IDLE', idle, 'RETRYCOUNT', ARGV[k + 1], 'JUSTID')[1] then held = held + 1 end
  end
  if there then call('ZADD', leased, 'LT', look, name) end
  at = at + 2 + 2 * n
end
for _ = 1, delay == '0' and math.min(bells, held) or 0 do call('RPUSH', wake, '1') end
return held

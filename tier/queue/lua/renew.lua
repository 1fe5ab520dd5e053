#!lua flags=allow-oom
-- Renews leases of jobs: active -> active, idle 0; and the member's beat.
-- KEYS[1] workers  HASH
-- KEYS[2] told     HASH  active job -> why it is cancelled, only looked at
-- KEYS[3..] logs   STREAM  of lanes
-- ARGV[1] member   name
-- ARGV[2] number   of the member
-- ARGV[3..]        for each lane how many of its jobs, their entries, and their ids
-- Replies {1 | -1 when fenced, entries of each lane that are still held, {id, why it is cancelled, ...}}
local workers, told = KEYS[1], KEYS[2]
local member, number = ARGV[1], ARGV[2]
local call = redis.call

if call('HGET', workers, member) ~= number then return {-1, {}, {}} end
local cancelled = call('HLEN', told) > 0
for i = 3, #KEYS do call('XLEN', KEYS[i]) end
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'XCLAIM', workers, 'w', member, '0', '0-1'}, {'EXISTS', workers}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local t = call('TIME')
call('HSET', workers, member .. ':beat', string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)))
local out, at, why = {}, 3, {}
for i = 3, #KEYS do
  local log, n = KEYS[i], ARGV[at]
  local ids = {unpack(ARGV, at + 1, at + n)}
  ids[#ids + 1] = 'JUSTID'
  out[i - 2] = call('EXISTS', log) == 1 and call('XCLAIM', log, 'w', member, 0, unpack(ids)) or {}
  for k = at + 1 + n, cancelled and at + 2 * n or 0 do
    local reason = call('HGET', told, ARGV[k])
    if reason then
      why[#why + 1] = ARGV[k]
      why[#why + 1] = reason
    end
  end
  at = at + 1 + 2 * n
end
return {1, out, why}

#!lua flags=allow-oom
-- Retires a group that is dead: present, with something to do and no sign of life for so long -> deleted, marked so for its
-- members, as by delete_group.lua. A sign of life is a consumer that the server heard, or a member's beat; of a group
-- without any it is looked for from the first time on that somebody asks. A paused one stays. Its dead letters stay.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] scope      HASH    only looked at
-- KEYS[2] sweeper    HASH    only looked at
-- KEYS[3] log        STREAM
-- KEYS[4] retention  HASH
-- KEYS[5] group      HASH
-- KEYS[6] owners     HASH
-- KEYS[7] retry      ZSET
-- KEYS[8] open       HASH
-- ARGV[1] owner      who holds the right to trim
-- ARGV[2] epoch      of its holding
-- ARGV[3] field      of the policy in the scope
-- ARGV[4] policy     that the caller has read
-- ARGV[5] name       of the group
-- ARGV[6] dead       ms without a sign of life
-- ARGV[7] mark       ms that the mark of the deletion stays
-- Replies {'ok', 1 when it was retired, pending, parked, {}} | {'fenced' | 'policy', 0, 0, 0, {}}, as trim.lua
local scope, sweeper, log, retention, group, owners, retry, open = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local owner, epoch, field, policy, name, dead, mark = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7]
local call = redis.call

-- sweeper begin: refuses who does not hold the right to trim, or has read another policy
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local row = call('HMGET', sweeper, 'owner', 'epoch', 'until')
if row[1] ~= owner or row[2] ~= epoch or tonumber(row[3]) <= now then return {'fenced', 0, 0, 0, {}} end
if call('HGET', scope, field) ~= policy then return {'policy', 0, 0, 0, {}} end
for _, cmd in ipairs({{'XTRIM', log, 'MAXLEN', '0'}, {'XRANGE', log, '-', '+'}, {'HINCRBY', retention, 'f', '1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
-- sweeper end

local none, it = {'ok', 0, 0, 0, {}}, nil
for _, g in ipairs(call('EXISTS', log) == 1 and call('XINFO', 'GROUPS', log) or {}) do
  if g[2] == name then it = g end
end
if not it or call('HGET', group, 'paused') then return none end
dead = math.max(dead, 2 * (tonumber(call('HGET', group, 'lease')) or 0)) -- its members beat as it makes them
local parked, unread = call('ZCARD', retry), call('XRANGE', log, '(' .. it[8], '+', 'COUNT', 1)
local life
for _, c in ipairs(call('XINFO', 'CONSUMERS', log, name)) do
  life = math.max(life or 0, now - c[6]) -- idle
end
local rows = call('HGETALL', owners)
for i = 1, #rows, 2 do
  if string.sub(rows[i], -5) == ':beat' then life = math.max(life or 0, tonumber(rows[i + 1]) or 0) end
end
local asked = call('HGET', retention, 'silent:' .. name)
for _, cmd in ipairs({{'HSET', group, 'f', ''}, {'HDEL', retention, 'f'}, {'DEL', owners}, {'PEXPIRE', group, '1'}, {'XGROUP', 'DESTROY', log, name}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1] == 'XGROUP' and 'xgroup|destroy' or cmd[1]) .. "' command")
  end
end
local busy = it[6] > 0 or parked > 0 or #unread > 0
if not busy or (life and now - life < dead) then
  if asked then call('HDEL', retention, 'silent:' .. name) end
  return none
end
if not life and not asked then call('HSET', retention, 'silent:' .. name, string.format('%.0f', now)) end
if now - (life or tonumber(asked or now)) < dead then return none end
call('DEL', group, owners, retry, open)
call('XGROUP', 'DESTROY', log, name)
call('HSET', group, 'deleted', string.format('%.0f', now))
call('PEXPIRE', group, mark)
call('HDEL', retention, 'silent:' .. name)
call('HSET', retention, 'retired:' .. name, string.format('%.0f', now))
return {'ok', 1, it[6], parked, {}}

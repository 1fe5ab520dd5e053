#!lua flags=allow-oom
-- Deletes a group and what belongs to it: present -> deleted, marked so for its members. Its dead letters stay.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] log      STREAM
-- KEYS[2] group    HASH
-- KEYS[3] owners   HASH
-- KEYS[4] retry    ZSET
-- KEYS[5] open     HASH
-- ARGV[1] name     of the group
-- ARGV[2] mark     ms that the mark stays
-- Replies 1 | 0 when there was no such group
local log, group, owners, retry, open = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local name, mark = ARGV[1], ARGV[2]

-- Asked first, since a right that is lacking must not show halfway.
for name, cmd in pairs({exists = {'EXISTS', log}, ['xgroup|destroy'] = {'XGROUP', 'DESTROY', log, name}, time = {'TIME'}, hset = {'HSET', group, '-', '-'}, pexpire = {'PEXPIRE', group, mark}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. name .. "' command")
  end
end
redis.call('DEL', group, owners, retry, open)
local there = 0
if redis.call('EXISTS', log) == 1 then there = redis.call('XGROUP', 'DESTROY', log, name) end
local t = redis.call('TIME')
redis.call('HSET', group, 'deleted', t[1] * 1000 + math.floor(t[2] / 1000)) -- also when the server lost it: members would make it again
redis.call('PEXPIRE', group, mark)
return there

#!lua flags=allow-oom
-- Moves a group to another start: present -> present with nothing pending. Members are refused until they ask again.
-- KEYS[1] log      STREAM
-- KEYS[2] group    HASH
-- KEYS[3] owners   HASH
-- KEYS[4] retry    ZSET
-- KEYS[5] open     HASH
-- ARGV[1] name     of the group
-- ARGV[2] after    id after which it reads; '$' for what is new
-- ARGV[3] start    the first message's id as declared
-- Replies the number of pending and parked entries that were forgotten, or -1 when there is no such group
local log, group, owners, retry, open = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local name, after, start = ARGV[1], ARGV[2], ARGV[3]

if redis.call('EXISTS', log) == 0 then return -1 end
local pending = -1
for _, g in ipairs(redis.call('XINFO', 'GROUPS', log)) do
  if g[2] == name then pending = g[6] end
end
if pending < 0 then return -1 end
-- Asked first, since a right that is lacking must not show halfway.
for name, cmd in pairs({['xgroup|create'] = {'XGROUP', 'CREATE', log, name, '0-0'}, ['xgroup|destroy'] = {'XGROUP', 'DESTROY', log, name}, ['xinfo|stream'] = {'XINFO', 'STREAM', log}, hset = {'HSET', group, '-', '-'}, del = {'DEL', owners}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. name .. "' command")
  end
end
pending = pending + redis.call('ZCARD', retry)
redis.call('XGROUP', 'DESTROY', log, name)
redis.call('XGROUP', 'CREATE', log, name, after)
local info = redis.call('XINFO', 'STREAM', log)
for i = 1, #info, 2 do
  if info[i] == 'entries-added' then redis.call('HSET', group, 'added', info[i + 1]) end
  if info[i] == 'last-generated-id' and after == '$' then after = info[i + 1] end
end
redis.call('HSET', group, 'start', start, 'floor', after)
redis.call('DEL', owners, retry, open)
return pending

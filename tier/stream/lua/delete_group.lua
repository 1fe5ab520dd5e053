#!lua flags=allow-oom
-- Deletes a group and what belongs to it: present -> absent. Its dead letters stay.
-- KEYS[1] log      STREAM
-- KEYS[2] group    HASH
-- KEYS[3] owners   HASH
-- ARGV[1] name     of the group
-- Replies 1 | 0 when there was no such group
local log, group, owners = KEYS[1], KEYS[2], KEYS[3]
local name = ARGV[1]

redis.call('DEL', group, owners)
if redis.call('EXISTS', log) == 0 then return 0 end
return redis.call('XGROUP', 'DESTROY', log, name)

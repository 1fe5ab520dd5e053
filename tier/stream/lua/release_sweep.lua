#!lua flags=allow-oom
-- Gives the right to trim in a scope back: held -> free. The epoch stays, so that the next one is higher.
-- KEYS[1] sweeper  HASH
-- ARGV[1] owner    who holds it
-- ARGV[2] epoch    of its holding
-- Replies 1 | 0 when it is not the caller's
local sweeper, owner, epoch = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call

local row = call('HMGET', sweeper, 'owner', 'epoch')
if row[1] ~= owner or row[2] ~= epoch then return 0 end
call('HSET', sweeper, 'owner', '', 'until', '0')
return 1

#!lua flags=allow-oom
-- Settles entries: leased -> gone.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- ARGV[1] group    name
-- ARGV[2] member   name
-- ARGV[3] number   of the member
-- ARGV[4..] entries  ids, at most 4096
-- Replies how many were pending, or -1 when fenced
local log, owners = KEYS[1], KEYS[2]
local group, member, number = ARGV[1], ARGV[2], ARGV[3]

if redis.call('HGET', owners, member) ~= number then return -1 end
return redis.call('XACK', log, group, unpack(ARGV, 4))

#!lua flags=allow-oom
-- Renews leases: leased -> leased, idle 0; and the member's beat.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- ARGV[1] group    name
-- ARGV[2] member   name
-- ARGV[3] number   of the member
-- ARGV[4..] entries  ids, none to 4096
-- Replies {1 | -1 when fenced, ids that are still held}
local log, owners = KEYS[1], KEYS[2]
local group, member, number = ARGV[1], ARGV[2], ARGV[3]

if redis.call('HGET', owners, member) ~= number then return {-1, {}} end
local t = redis.call('TIME')
redis.call('HSET', owners, member .. ':beat', t[1] * 1000 + math.floor(t[2] / 1000))
if #ARGV == 3 then return {1, {}} end
local claim = {log, group, member, 0, unpack(ARGV, 4)}
claim[#claim + 1] = 'JUSTID'
return {1, redis.call('XCLAIM', unpack(claim))}

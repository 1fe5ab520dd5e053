#!lua flags=allow-oom
-- Ends a process's range of mint time where it stopped minting, so that its number is free from then on.
-- KEYS[1] nodes          HASH  the registry
-- ARGV[1] holder         token of the process
-- ARGV[2] number         its node number
-- ARGV[3] limit          ms: no id at or above it was minted
-- Replies 1 | 0 when the number is not the holder's
local nodes = KEYS[1]
local holder, number, limit = ARGV[1], ARGV[2], ARGV[3]

local field = 'node:' .. number
if string.match(redis.call('HGET', nodes, field) or '', '^(%S+) ') ~= holder then return 0 end
redis.call('HSET', nodes, field, holder .. ' ' .. limit)
return 1

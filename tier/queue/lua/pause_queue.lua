#!lua flags=allow-oom
-- Pauses a queue: handing out -> paused: nothing is claimed, taken over or promoted. What is active goes on, and ends.
-- KEYS[1] queue    HASH
-- Replies 1 | 0 when it was paused already
local queue = KEYS[1]

local t = redis.call('TIME')
return redis.call('HSETNX', queue, 'paused', string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)))

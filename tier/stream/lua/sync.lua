#!lua flags=allow-oom
-- A member learns its number and what it holds: unknown -> member; member -> member. Numbers come from the clock, so
-- that one given anew differs from any before.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- KEYS[3] group    HASH
-- ARGV[1] name     of the group
-- ARGV[2] member   name
-- ARGV[3] max      pending entries to answer with
-- Replies {number, start of the group or '0-0', {id, deliveries, id, deliveries, ...}}
local log, owners, group = KEYS[1], KEYS[2], KEYS[3]
local name, member, max = ARGV[1], ARGV[2], ARGV[3]

local pending = redis.call('XPENDING', log, name, '-', '+', max, member)
local t = redis.call('TIME')
local number = redis.call('HGET', owners, member)
if not number then
  number = string.format('%d%06d', t[1], t[2])
  redis.call('HSET', owners, member, number)
end
redis.call('HSET', owners, member .. ':beat', t[1] * 1000 + math.floor(t[2] / 1000))
local held = {}
for _, p in ipairs(pending) do
  held[#held + 1] = p[1]
  held[#held + 1] = p[4]
end
return {number, redis.call('HGET', group, 'start') or '0-0', held}

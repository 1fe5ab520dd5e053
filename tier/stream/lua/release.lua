#!lua flags=allow-oom
-- Hands entries back: leased -> leased by the same member, but free to be taken over by anyone, now or after a delay.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- ARGV[1] group    name
-- ARGV[2] member   name
-- ARGV[3] number   of the member
-- ARGV[4] idle     ms that the entries shall look idle for
-- ARGV[5..]        id, deliveries that count; id, deliveries; ...
-- Replies how many were held, or -1 when fenced
local log, owners = KEYS[1], KEYS[2]
local group, member, number, idle = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('HGET', owners, member) ~= number then return -1 end
local held = 0
for i = 5, #ARGV, 2 do
  held = held + #redis.call('XCLAIM', log, group, member, 0, ARGV[i], 'IDLE', idle, 'RETRYCOUNT', ARGV[i + 1], 'JUSTID')
end
return held

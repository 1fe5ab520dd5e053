#!lua flags=allow-oom
-- Hands entries back: leased -> leased by the same member, but free to be taken over by anyone, now or after a delay.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- KEYS[3] open     HASH
-- ARGV[1] group    name
-- ARGV[2] member   name
-- ARGV[3] number   of the member
-- ARGV[4] idle     ms that the entries shall look idle for
-- ARGV[5..]        id, deliveries that count, its row in open or '' to leave it; id, deliveries, row; ...
-- Replies how many were held, or -1 when fenced
local log, owners, open = KEYS[1], KEYS[2], KEYS[3]
local group, member, number, idle = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('HGET', owners, member) ~= number then return -1 end
local held = 0
for i = 5, #ARGV, 3 do
  local id, deliveries, row = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if redis.call('XCLAIM', log, group, member, 0, id, 'IDLE', idle, 'RETRYCOUNT', deliveries, 'JUSTID')[1] then
    held = held + 1
    if row ~= '' then redis.call('HSET', open, id, row) end
  end
end
return held

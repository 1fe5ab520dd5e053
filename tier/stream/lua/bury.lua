#!lua
-- Moves entries to the dead letters: leased -> dead letter. What is not pending is left alone.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- KEYS[3] dead     STREAM  fields: entry, reason, deliveries, then the entry's own fields
-- ARGV[1] group    name
-- ARGV[2] member   name
-- ARGV[3] number   of the member
-- ARGV[4] reason   text
-- ARGV[5..]        id, deliveries; id, deliveries; ...
-- Replies how many were moved, or -1 when fenced
local log, owners, dead = KEYS[1], KEYS[2], KEYS[3]
local group, member, number, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('HGET', owners, member) ~= number then return -1 end
local moved = 0
for i = 5, #ARGV, 2 do
  local id = ARGV[i]
  if redis.call('XPENDING', log, group, id, id, 1)[1] then
    local letter = {dead, '*', 'entry', id, 'reason', reason, 'deliveries', ARGV[i + 1]}
    local entry = redis.call('XRANGE', log, id, id)[1]
    for k = 1, entry and math.min(#entry[2], 4000) or 0 do letter[#letter + 1] = entry[2][k] end
    redis.call('XADD', unpack(letter))
    redis.call('XACK', log, group, id)
    moved = moved + 1
  end
end
return moved

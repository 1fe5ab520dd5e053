#!lua flags=allow-oom
-- Takes over entries whose lease has ended: leased, idle past the lease -> leased by the caller, one more delivery. Each
-- other member that loses an entry gets another number, which fences it. One page of the pending list is looked at.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- ARGV[1] group    name
-- ARGV[2] member   name
-- ARGV[3] number   of the member
-- ARGV[4] lease    ms
-- ARGV[5] from     cursor: '-' or the '(' form of the last id looked at
-- ARGV[6] page     pending entries to look at
-- ARGV[7] want     entries to take at most
-- Replies {1 | -1 when fenced, next cursor or '' at the end, {id, deliveries, ...} taken or trimmed, entries that exist}
local log, owners = KEYS[1], KEYS[2]
local group, member, number = ARGV[1], ARGV[2], ARGV[3]
local lease, from, page, want = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])

if redis.call('HGET', owners, member) ~= number then return {-1, '', {}, {}} end
local rows = redis.call('XPENDING', log, group, from, '+', page)
local ids, taken, losers, looked = {}, {}, {}, 0
for _, row in ipairs(rows) do
  if #ids == want then break end
  looked = looked + 1
  if row[3] >= lease then
    ids[#ids + 1] = row[1]
    taken[#taken + 1] = row[1]
    taken[#taken + 1] = row[4] + 1
    if row[2] ~= member then losers[row[2]] = true end
  end
end
for loser in pairs(losers) do
  if redis.call('HEXISTS', owners, loser) == 1 then redis.call('HINCRBY', owners, loser, 1) end
end
local cursor = ''
if looked < #rows or #rows == page then cursor = '(' .. rows[looked][1] end
local entries = {}
if #ids > 0 then entries = redis.call('XCLAIM', log, group, member, 0, unpack(ids)) end
return {1, cursor, taken, entries}

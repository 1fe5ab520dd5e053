#!lua flags=allow-oom
-- Takes over entries whose lease has ended: leased, idle past the lease -> leased by the caller, one more delivery. Each
-- other member that loses an entry gets another number, which fences it. One page of the pending list is looked at. A
-- suspect, an entry that a second consumer let go of, may be what ends them: it is taken alone, so that no neighbour of it
-- is suspected for its sake.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- KEYS[3] retry    ZSET  only looked at
-- KEYS[4] open     HASH  only looked at
-- KEYS[5] terms    HASH  only looked at
-- ARGV[1] group    name
-- ARGV[2] member   name
-- ARGV[3] number   of the member
-- ARGV[4] lease    ms
-- ARGV[5] from     cursor: '-' or the '(' form of the last id looked at
-- ARGV[6] page     pending entries to look at
-- ARGV[7] want     entries to take at most
-- ARGV[8] suspects that may be among them
-- Replies {1 | 0 when the group is paused | -1 when fenced, next cursor or '' at the end, {id, deliveries, ...} taken or trimmed, entries that exist,
--   their rows in open or '', the server's time in ms, ms until the first parked entry is due or -1, suspects left}
local log, owners, retry, open, terms = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, member, number = ARGV[1], ARGV[2], ARGV[3]
local lease, from, page, want, suspects = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local call = redis.call

if call('HGET', owners, member) ~= number then return {-1, '', {}, {}, {}, 0, -1, 0} end
if call('HGET', terms, 'paused') then return {0, '', {}, {}, {}, 0, -1, 0} end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local due = call('ZRANGE', retry, 0, 0, 'WITHSCORES')[2]
local wait = due and math.max(0, tonumber(due) - now) or -1
local pending = call('XPENDING', log, group, from, '+', page)
local ids, taken, losers, looked, left = {}, {}, {}, 0, 0
for _, row in ipairs(pending) do
  if #ids == want then break end
  looked = looked + 1
  local suspect = row[4] >= 2
  if row[3] >= lease and suspect and suspects == 0 then
    left = left + 1
  elseif row[3] >= lease then
    if suspect then suspects = suspects - 1 end
    ids[#ids + 1] = row[1]
    taken[#taken + 1] = row[1]
    taken[#taken + 1] = row[4] + 1
    if row[2] ~= member then losers[row[2]] = true end
  end
end
-- Asked first, since a right that is lacking must not show halfway.
for name, cmd in pairs({hexists = {'HEXISTS', owners, 'f'}, hincrby = {'HINCRBY', owners, 'f', '1'}, hget = {'HGET', open, 'f'},
  xclaim = {'XCLAIM', log, group, member, '0', '0-1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. name .. "' command")
  end
end
for loser in pairs(losers) do
  if call('HEXISTS', owners, loser) == 1 then call('HINCRBY', owners, loser, 1) end
end
local cursor = ''
if looked < #pending or #pending == page then cursor = '(' .. pending[looked][1] end
local entries, rows = {}, {}
if #ids > 0 then entries = call('XCLAIM', log, group, member, 0, unpack(ids)) end
for i, entry in ipairs(entries) do rows[i] = call('HGET', open, entry[1]) or '' end
return {1, cursor, taken, entries, rows, now, wait, left}

#!lua
-- Ends deliveries of entries of which not all was handled: leased -> parked until due, with the messages that are open, or
-- gone; what is given up -> dead letters, in the same step. An entry that is not the member's any more, or at another
-- delivery, is left alone: an earlier try of this call had its effect.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- KEYS[3] retry    ZSET    due ms -> entry
-- KEYS[4] open     HASH    entry -> 'deliveries' and, for each open message, ' index attempt due'
-- KEYS[5] dead     STREAM  fields: entry, index of how many (of a message of a pack), reason, attempts, then the entry's or message's own
-- ARGV[1] group    name
-- ARGV[2] member   name
-- ARGV[3] number   of the member
-- ARGV[4..]        of each entry: id, delivery it was, open messages o, letters l, then
--                  o times: index, attempt, ms until it is due; l times: index or '' for the entry,
--                  messages of its pack, reason, attempts, message
-- Replies how many it was done for, or -1 when fenced
local log, owners, retry, open, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, member, number = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

if call('HGET', owners, member) ~= number then return -1 end
for _, cmd in ipairs({{'XADD', dead, '*', 'f', ''}, {'HSET', open, 'f', ''}, {'HDEL', open, 'f'}, {'ZADD', retry, '0', 'm'}, {'XACK', log, group, '0-1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function bury(id, index, of, reason, attempts, message)
  local letter = {dead, '*', 'entry', id}
  local function put(field, value) letter[#letter + 1] = field; letter[#letter + 1] = value end
  if index ~= '' then
    put('index', index)
    put('of', of)
  end
  put('reason', reason)
  put('attempts', attempts)
  if index ~= '' then
    put('m', message)
  else
    local entry = call('XRANGE', log, id, id)[1]
    for k = 1, entry and math.min(#entry[2], 4000) or 0 do letter[#letter + 1] = entry[2][k] end
  end
  call('XADD', unpack(letter))
end
local done, i = 0, 4
while i <= #ARGV do
  local id, row, opened, letters = ARGV[i], {ARGV[i + 1]}, tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  i = i + 4
  local held, due = call('XPENDING', log, group, id, id, 1)[1], math.huge
  held = held and held[2] == member and tostring(held[4]) == row[1]
  for _ = 1, opened do
    local at = now + tonumber(ARGV[i + 2])
    row[#row + 1] = string.format('%s %s %.0f', ARGV[i], ARGV[i + 1], at)
    due = math.min(due, at)
    i = i + 3
  end
  for _ = 1, letters do
    if held then bury(id, ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]) end
    i = i + 5
  end
  if held then
    if opened > 0 then
      call('HSET', open, id, table.concat(row, ' '))
      call('ZADD', retry, string.format('%.0f', due), id)
    else
      call('HDEL', open, id)
    end
    call('XACK', log, group, id)
    done = done + 1
  end
end
return done

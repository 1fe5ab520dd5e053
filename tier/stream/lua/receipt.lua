#!lua
-- Ends a transaction that has appended messages with ids that the server gave: notes their receipt, or, where append.lua or pack.lua
-- would refuse them or might have given other ids (to a new log, ahead of the clock), takes them out again as if they had not been added.
-- producer at last -> producer at number. The transaction's commands see one time,
-- so that the ids of messages that are entries follow one another; before each pack it has room.lua or follow.lua.
-- KEYS[1] log       STREAM
-- KEYS[2] producer  STRING  as append.lua has it, and as room.lua and follow.lua have left it
-- KEYS[3] scope     HASH
-- ARGV[1] number    of this call: last + 1
-- ARGV[2] ttl       ms that the producer key lives
-- ARGV[3] field     of the stream in the scope
-- ARGV[4] above     the highest address that this writer was given
-- ARGV[5] keep      how many receipts of calls before this one may still be asked for
-- ARGV[6] count     of the messages
-- ARGV[7] entries   that they are
-- ARGV[8] size      messages in the first one
-- ARGV[9] node      that the caller derives ids with
-- ARGV[10] brand    that the caller derives ids with, and the partition that it appends to, as declared
-- Replies {code, first id, count, size}: ok | again (taken out: the script that it stands for appends them)
local log, producer, scope = KEYS[1], KEYS[2], KEYS[3]
local number, ttl, field, above, keep = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local count, entries, size, node, brand = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8], ARGV[9], ARGV[10]
local call = redis.call

local function parse(id)
  local ms, seq = string.match(id, '^(%d+)%-(%d+)$')
  return ms + 0, seq + 0
end
local held, state = string.match(call('GET', producer) or '', '^([^@]*)(.*)$')
local last = string.match(held, '^%d+')
local declared = call('HMGET', scope, 'node', field)
local expected = last and last + 1 == number + 0 and declared[1] == node and declared[2] == brand
local added = call('EXISTS', log) == 1 and redis.acl_check_cmd('XADD', log, 'NOMKSTREAM', '*', 'm', '') -- else nothing was
local first, ms, seq
if expected and added and size == '1' then
  ms, seq = parse(call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1][1])
  local begin, given_ms, given_seq = seq - count + 1, parse(above)
  if begin >= 0 and (ms > given_ms or (ms == given_ms and begin > given_seq)) and seq <= 4095 and call('XLEN', log) > count
    and ms >= 1704067200000 and ms + 2 <= 3903090455551 then
    first = string.format('%.0f-%d', ms, begin)
  end
elseif expected and added then
  local base, placed
  ms, base, first, placed = string.match(state, '^@(%d+) (%-?%d+) (%S+) (%d+)$')
  if first and placed + 1 == count then
    ms, seq = ms + 0, base + placed
  else
    first = nil -- of some packs it is not known what id they took
  end
end

if not first then
  local before, deleted, top, groups = 0, '0-0', '', 0
  local info = added and call('XINFO', 'STREAM', log) or {}
  for i = 1, #info, 2 do
    if info[i] == 'entries-added' then before = info[i + 1] - entries end
    if info[i] == 'max-deleted-entry-id' then deleted = info[i + 1] end
    if info[i] == 'last-generated-id' then top = info[i + 1] end
    if info[i] == 'groups' then groups = info[i + 1] end
  end
  if added and top ~= '18446744073709551615-18446744073709551615' then -- the last one: then nothing was added
    local ids = {}
    for i, entry in ipairs(call('XREVRANGE', log, '+', '-', 'COUNT', entries)) do ids[i] = entry[1] end
    call('XDEL', log, unpack(ids))
    call('XSETID', log, top, 'ENTRIESADDED', before, 'MAXDELETEDID', deleted)
  end
  if state ~= '' then call('SET', producer, held, 'KEEPTTL') end
  if added and declared[2] ~= brand and before == 0 and groups == 0 then call('DEL', log) end -- which these have made
  return {'again', '', 0, 0}
end
local t = call('TIME')
if ms > t[1] * 1000 + t[2] / 1000 then
  call('HSET', scope, 'top' .. string.sub(field, 7), string.format('%.0f-%d', ms, seq)) -- as append.lua has it
end
if seq == 4095 then call('XSETID', log, string.format('%.0f-0', ms + 1)) end

local kept = ''
if keep ~= '0' then kept = string.match(held, '^' .. string.rep('[^;]*;', keep)) or held end
call('SET', producer, number .. ' ' .. first .. ' ' .. count .. ' ' .. size .. ';' .. kept, 'PX', ttl)
return {'ok', first, count, tonumber(size)}

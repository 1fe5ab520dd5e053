#!lua
-- Appends packs, several messages an entry, with ids above the top and not below the clock: producer at last -> producer
-- at number. An entry's id is that of its last message, the others are the sequences below it in the same millisecond;
-- a pack that does not fit begins the next one. So the ids follow from (first message's id, sizes of the packs).
-- KEYS[1] log       STREAM
-- KEYS[2] producer  STRING  'number first count size;' for the last calls, 8 at most, newest first; size: messages an entry
-- KEYS[3] scope     HASH
-- ARGV[1] number    of this call: last + 1, or the source's position when named
-- ARGV[2] ttl       ms that the producer key lives, 0 for a named producer, whose numbers may leave gaps
-- ARGV[3] node      that the caller derives ids with
-- ARGV[4] field     of the stream in the scope
-- ARGV[5] brand     that the caller derives ids with, and the partition that it appends to, as declared
-- ARGV[6] above     the highest address that this writer was given
-- ARGV[7] follows   as append.lua has it
-- ARGV[8] keep      as append.lua has it
-- ARGV[9..]         size, bytes; size, bytes; ...
-- Replies {code, first message's id, count, size}: as append.lua
local log, producer, scope = KEYS[1], KEYS[2], KEYS[3]
local number, ttl = ARGV[1], ARGV[2]
local this = tonumber(number)
local node, field, brand, above, follows = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local keep = ARGV[8]
local first_pack = 9
local call = redis.call

local mark = 'top' .. string.sub(field, 7) -- field is stream:<name>: 'top:<name>' is the last id that was ahead of the clock
local declared = call('HMGET', scope, 'node', field, mark)
if declared[2] and string.sub(declared[2], 1, 1) == '-' then return {'removed', '', 0, 0} end
if declared[1] ~= node or declared[2] ~= brand then return {'undeclared', '', 0, 0} end

local held = call('GET', producer) or ''
local last = string.match(held, '^%d+')
if last then last = last + 0 end
for n, id, count, size in string.gmatch(last and this <= last and held or '', '(%d+) (%S+) (%d+) (%d+);') do
  if tonumber(n) == this then
    call('SET', producer, held, 'KEEPTTL') -- for who waits for replicas: they wait for what their connection wrote
    return {'dup', id, tonumber(count), tonumber(size)}
  end
end
if ttl == '0' then
  if last and this < last then return {'past', '', 0, 0} end
  if follows ~= '' and tonumber(follows) ~= (last or 0) then return {'moved', '', 0, 0} end
elseif not last then
  if this ~= 1 then return {'unknown', '', 0, 0} end
elseif this ~= last + 1 then
  return {'order', '', 0, 0}
end
if not last then -- asked once a producer: a right that is lacking must not show after the first write
  for _, cmd in ipairs({{'SET', producer, ''}, {'HSET', scope, mark, ''}, {'XSETID', log, '0-1'}}) do
    if not redis.acl_check_cmd(unpack(cmd)) then
      return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
    end
  end
end

local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ms, seq = now, -1
local function pass(id)
  local m, s = string.match(id, '^(%d+)%-(%d+)$')
  m, s = tonumber(m), tonumber(s)
  if m > ms or (m == ms and s > seq) then ms, seq = m, s end
end
local function room(size) -- moves to the pack's last message
  if seq + size > 4095 then ms, seq = ms + 1, -1 end
  seq = seq + size
  return string.format('%.0f-%d', ms, seq)
end
local function generated() -- the top is an entry that is gone: only XINFO, which copies two whole entries, knows it
  local id = '0-0'
  if call('EXISTS', log) == 1 then
    local info = call('XINFO', 'STREAM', log)
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' then id = info[i + 1] end
    end
  end
  if id == '0-0' then -- a new log, as append.lua has it
    if ms < now + 2 then ms, seq = now + 2, t[2] % 1000 * 4 - 1 end
    pass(declared[3] or id)
  end
  pass(id)
end
pass(above) -- which the log may have lost
local top = call('XREVRANGE', log, '+', string.format('%.0f-0', ms), 'COUNT', 1)
if top[1] then
  pass(top[1][1])
elseif call('XLEN', log) == 0 then -- all was trimmed, of this millisecond perhaps
  generated()
end

local size = tonumber(ARGV[first_pack])
local id = room(size)
if ms < 1704067200000 or ms + #ARGV >= 3903090455551 then return {'range', '', 0, 0} end
local added = redis.pcall('XADD', log, id, 'b', ARGV[first_pack + 1])
if added.err then
  generated()
  id = room(size)
  if ms + #ARGV >= 3903090455551 then return {'range', '', 0, 0} end
  call('XADD', log, id, 'b', ARGV[first_pack + 1])
end
local first, count = string.format('%.0f-%d', ms, seq - size + 1), size
for i = first_pack + 2, #ARGV, 2 do
  size = tonumber(ARGV[i])
  call('XADD', log, room(size), 'b', ARGV[i + 1])
  count = count + size
end
if ms > now then call('HSET', scope, mark, string.format('%.0f-%d', ms, seq)) end
if seq == 4095 then call('XSETID', log, string.format('%.0f-0', ms + 1)) end

local kept = ''
if keep ~= '0' then kept = string.match(held, '^' .. string.rep('[^;]*;', keep)) or held end
local receipts = number .. ' ' .. first .. ' ' .. count .. ' ' .. ARGV[first_pack] .. ';' .. kept
if ttl == '0' then
  call('SET', producer, receipts)
else
  call('SET', producer, receipts, 'PX', ttl)
end
return {'ok', first, count, tonumber(ARGV[first_pack])}

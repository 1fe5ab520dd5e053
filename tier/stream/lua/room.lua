#!lua
-- Makes the next entry of a transaction, the first pack of a call that is added with '*', take the id that pack.lua would give it: sets
-- the log's top right below. The others of the call have follow.lua, and receipt.lua ends it.
-- KEYS[1] log       STREAM
-- KEYS[2] producer  STRING  as pack.lua has it; behind it, until the transaction ends, '@ms base first last': the n-th message of the call,
--                           from 0 on, is at sequence base + n of ms; first: the id of the first; last: n of the last for which there is
--                           room. '@' alone: there is no such id
-- KEYS[3] scope     HASH
-- ARGV[1] size      of the pack, in messages; 0: only says whether the user may do what this, follow.lua and receipt.lua do: what a
--                   transaction has done before them stays when they are refused
-- ARGV[2] above     the highest address that this writer was given
-- ARGV[3] field     of the stream in the scope
-- Replies 1, or 0 when there is no such id, or no such right.
local log, producer, scope = KEYS[1], KEYS[2], KEYS[3]
local size, above, field = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local call = redis.call

if size == 0 then
  for _, cmd in ipairs({
    {'GET', producer}, {'SET', producer, ''}, {'HSET', scope, 'top', ''}, {'HGET', scope, 'top'}, {'HMGET', scope, 'node'}, {'TIME'}, {'EXISTS', log}, {'XLEN', log}, {'XREVRANGE', log, '+', '-'},
    {'XINFO', 'STREAM', log}, {'XDEL', log, '0-1'}, {'XSETID', log, '0-1'}, {'DEL', log},
  }) do
    if not redis.acl_check_cmd(unpack(cmd)) then return 0 end
  end
  return 1
end

local receipts = call('GET', producer)
if not receipts then return 0 end -- receipt.lua takes the packs out then
local t = call('TIME')
local ms, seq = t[1] * 1000 + math.floor(t[2] / 1000), -1
local function pass(id)
  local m, s = string.match(id, '^(%d+)%-(%d+)$')
  m, s = m + 0, s + 0
  if m > ms or (m == ms and s > seq) then ms, seq = m, s end
end
pass(above)
pass(call('HGET', scope, 'top' .. string.sub(field, 7)) or '0-0') -- as append.lua has it: XSETID takes an id below the top, too
-- only what is above all that is known: what the only writer of a log would find is its own last pack, which Lua would hash byte by byte
local from = seq < 0 and string.format('%.0f-0', ms) or string.format('(%.0f-%d', ms, seq)
local top = call('XREVRANGE', log, '+', from, 'COUNT', 1)[1]
local placed = true
if top then
  pass(top[1])
elseif call('XLEN', log) == 0 then -- what it gave last is not known
  placed = false
end
if placed then
  if seq + size > 4095 then ms, seq = ms + 1, -1 end
  local last = seq + size
  local below = last > 0 and string.format('%.0f-%d', ms, last - 1) or string.format('%.0f-18446744073709551615', ms - 1)
  placed = ms >= 1704067200000 and ms + 2 <= 3903090455551 and not redis.pcall('XSETID', log, below).err
end
if placed then
  call('SET', producer, string.format('%s@%.0f %d %.0f-%d %d', receipts, ms, seq + 1, ms, seq + 1, size - 1), 'KEEPTTL')
  return 1
end
call('SET', producer, receipts .. '@', 'KEEPTTL')
return 0

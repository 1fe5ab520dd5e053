#!lua
-- Does what room.lua does for a pack that follows another one of its call. It is short, since each pack has it: what it needs is in the producer, and only
-- where the ids begin anew, and for the last pack, is that written.
-- KEYS[1] log       STREAM
-- KEYS[2] producer  STRING  as room.lua has left it
-- ARGV[1] last      the pack's last message, counted from 0 on among those of the call
-- ARGV[2] size      of the pack, in messages
-- ARGV[3] ends      given for the last pack of the call
-- Replies 1, or 0 when there is no such id.
local log, producer = KEYS[1], KEYS[2]
local last, size, ends = ARGV[1], ARGV[2], ARGV[3]

local held = redis.call('GET', producer) or ''
local ms, base = string.match(held, '^[^@]*@(%d+) (%-?%d+) ')
if not ms or size == '0' then return 0 end -- who asks whether the script is known has no pack
local seq = base + last
if seq <= 4095 and not ends and not redis.pcall('XSETID', log, ms .. '-' .. seq - 1).err then return 1 end -- as most are

local receipts, first = string.match(held, '^([^@]*)@%S+ %S+ (%S+) ')
if seq > 4095 then ms, base, seq = string.format('%.0f', ms + 1), size - 1 - last, size - 1 end
local below = seq > 0 and ms .. '-' .. seq - 1 or string.format('%.0f-18446744073709551615', ms - 1)
if ms + 2 > 3903090455551 or redis.pcall('XSETID', log, below).err then
  redis.call('SET', producer, receipts .. '@', 'KEEPTTL')
  return 0
end
redis.call('SET', producer, receipts .. '@' .. ms .. ' ' .. base .. ' ' .. first .. ' ' .. last, 'KEEPTTL')
return 1

#!lua flags=allow-oom
-- Writes a group's floor down, for the day on which the server loses the group: present -> present.
-- KEYS[1] log      STREAM
-- KEYS[2] group    HASH
-- ARGV[1] name     of the group
-- Replies 1 | 0 when there is no such group
local log, group = KEYS[1], KEYS[2]
local name = ARGV[1]
local call = redis.call

if call('EXISTS', log) == 0 then return 0 end
local floor
for _, g in ipairs(call('XINFO', 'GROUPS', log)) do
  if g[2] == name then floor = g[8] end -- last-delivered-id
end
if not floor then return 0 end
local oldest = call('XPENDING', log, name)[2]
if oldest then -- the id before it; beyond 2^53, where numbers lose digits, one that is lower
  local ms, seq = string.match(oldest, '^(%d+)%-(%d+)$')
  ms, seq = tonumber(ms), tonumber(seq)
  if seq > 9007199254740991 then
    floor = string.format('%.0f-0', ms)
  elseif seq > 0 then
    floor = string.format('%.0f-%.0f', ms, seq - 1)
  else
    floor = string.format('%.0f-18446744073709551615', math.max(0, ms - 1))
  end
end
local info = call('XINFO', 'STREAM', log)
for i = 1, #info, 2 do
  if info[i] == 'entries-added' then call('HSET', group, 'floor', floor, 'added', info[i + 1]) end
end
return 1

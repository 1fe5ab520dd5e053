#!lua
-- Appends one entry of n messages to a declared stream, as a program that has no producer key: above every id of the log,
-- and not below the server's clock. The sequences that the entry takes, n of one millisecond, are free in the same step.
-- KEYS[1] log    STREAM
-- KEYS[2] scope  HASH
-- ARGV[1] field  of the stream in the scope
-- ARGV[2] brand  that the caller derives ids with
-- ARGV[3] node   that the caller derives ids with
-- ARGV[4] name   m, or b for a pack
-- ARGV[5] value  of the field
-- ARGV[6] n      messages in the value, 1 to 4095
-- Replies the entry's id, or undeclared | removed | range (ids leave their 41 bits)
local log, scope = KEYS[1], KEYS[2]
local field, brand, node = ARGV[1], ARGV[2], ARGV[3]
local name, value, n = ARGV[4], ARGV[5], tonumber(ARGV[6])

local declared = redis.call('HMGET', scope, 'node', field)
if declared[2] and string.sub(declared[2], 1, 1) == '-' then return 'removed' end
if declared[1] ~= node or declared[2] ~= brand then return 'undeclared' end

local t = redis.call('TIME')
local ms, seq = t[1] * 1000 + math.floor(t[2] / 1000), -1
if redis.call('EXISTS', log) == 1 then
  local info = redis.call('XINFO', 'STREAM', log) -- copies two entries: a writer of many would look for a cheaper way
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then
      local m, s = string.match(info[i + 1], '^(%d+)%-(%d+)$')
      m, s = tonumber(m), tonumber(s)
      if m >= ms then ms, seq = m, s end
    end
  end
end
if seq + n > 4094 then ms, seq = ms + 1, -1 end -- 4095 stays free: after it, XADD * would go on at 4096
if ms < 1704067200000 or ms >= 3903090455551 then return 'range' end
return redis.call('XADD', log, string.format('%.0f-%d', ms, seq + n), name, value)

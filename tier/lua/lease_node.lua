#!lua
-- Grants a process a range of mint time under a node number: free or expired -> leased; leased -> leased for longer.
-- A number whose range has not ended is nobody else's, so no two holders can mint the same id.
-- KEYS[1] nodes          HASH  the registry
-- ARGV[1] holder         token of the process
-- ARGV[2] number         the one that is extended, or -1 for a new one
-- ARGV[3] grant          ms from now on
-- ARGV[4] hint           first number to try, 512..1023
-- ARGV[5] earliest       ms: the server's time by a host's clock that is as far ahead as it may be
-- Replies {'ok', number, from ms, limit ms, now ms} | {'lost', number, 0, 0, now} | {'full', -1, 0, 0, now}
--   | {'ahead', number, 0, 0, now}
local nodes = KEYS[1]
local holder, number, grant, hint = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local earliest = tonumber(ARGV[5])

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now < earliest then return {'ahead', number, 0, 0, now} end
local function row(n)
  local who, limit = string.match(redis.call('HGET', nodes, 'node:' .. n) or '', '^(%S+) (%d+)$')
  return who, tonumber(limit or 0)
end
local from, limit = now, now + grant
if number >= 0 then
  local who, until_ms = row(number)
  if who ~= holder then return {'lost', number, 0, 0, now} end
  limit = math.max(limit, until_ms)
else
  for i = 0, 511 do
    local n = 512 + (hint - 512 + i) % 512
    local _, until_ms = row(n)
    if until_ms <= now then number = n; break end
  end
  if number < 0 then return {'full', -1, 0, 0, now} end
end
redis.call('HSET', nodes, 'node:' .. number, holder .. ' ' .. string.format('%.0f', limit))
return {'ok', number, from, limit, now}

#!lua flags=allow-oom
-- Retires members that have not beaten for long: member -> gone. What they held was taken over, or is going to be.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] workers  HASH
-- ARGV[1] silence  ms without a beat
-- Replies how many were retired
local workers = KEYS[1]
local silence = tonumber(ARGV[1])
local call = redis.call

local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local retired = 0
local rows = call('HGETALL', workers)
for i = 1, #rows, 2 do
  local member = string.match(rows[i], '^(.*):beat$')
  if member and now - tonumber(rows[i + 1]) > silence then
    call('HDEL', workers, member, rows[i])
    retired = retired + 1
  end
end
return retired

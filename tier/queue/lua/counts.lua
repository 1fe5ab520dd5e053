#!lua flags=allow-oom
-- Counts the jobs of a queue by their states; the active ones in the lanes that were declared.
-- KEYS[1] jobs     HASH
-- KEYS[2] due      ZSET
-- KEYS[3] dead     ZSET
-- KEYS[4] waiting  ZSET
-- KEYS[5] leased   ZSET
-- KEYS[6..] logs   STREAM  of lanes
-- ARGV[1..]        names of the lanes
-- Replies {jobs that are not done, scheduled ones, dead ones, waiting ones, active ones, lanes that may have active jobs and were not declared}
local jobs, due, dead, waiting, leased = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local call = redis.call

local active, declared = 0, {}
for i = 6, #KEYS do
  local log = KEYS[i]
  declared[ARGV[i - 5]] = true
  if call('EXISTS', log) == 1 then active = active + call('XPENDING', log, 'w')[1] end
end
local others = {}
for _, name in ipairs(call('ZRANGE', leased, 0, -1)) do
  if not declared[name] then others[#others + 1] = name end
end
return {call('HLEN', jobs), call('ZCARD', due), call('ZCARD', dead), call('ZCARD', waiting), active, others}

#!lua flags=allow-oom
-- Counts the jobs of a queue by their states; the active ones in the lanes that were declared. Tells what is on its way.
-- KEYS[1] jobs     HASH
-- KEYS[2] due      ZSET
-- KEYS[3] dead     ZSET
-- KEYS[4] waiting  ZSET
-- KEYS[5] leased   ZSET
-- KEYS[6] outbox   STREAM
-- KEYS[7..] logs   STREAM  of lanes
-- ARGV[1..]        names of the lanes
-- Replies {jobs that are not done, scheduled ones, dead ones, waiting ones, active ones, lanes that may have active jobs and were not declared,
-- entries of the outbox, unix ms, unix ms at which the first scheduled one is due or ''}
local jobs, due, dead, waiting, leased, outbox = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local call = redis.call

local active, declared = 0, {}
for i = 7, #KEYS do
  local log = KEYS[i]
  declared[ARGV[i - 6]] = true
  if call('EXISTS', log) == 1 then active = active + call('XPENDING', log, 'w')[1] end
end
local others = {}
for _, name in ipairs(call('ZRANGE', leased, 0, -1)) do
  if not declared[name] then others[#others + 1] = name end
end
local t = call('TIME')
return {call('HLEN', jobs), call('ZCARD', due), call('ZCARD', dead), call('ZCARD', waiting), active, others,
  call('XLEN', outbox), string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)), call('ZRANGE', due, 0, 0, 'WITHSCORES')[2] or ''}

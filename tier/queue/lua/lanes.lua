#!lua flags=allow-oom
-- Tells of lanes: how each was configured, and how many of its jobs are ready and active.
-- KEYS[1] terms    HASH  of lanes
-- KEYS[2..] logs   STREAM  of the lanes
-- ARGV[1..]        names of the lanes
-- Replies {'<weight> <ceiling> <paused>' | '', entries, active ones, first ready entry or '', ... for each lane}
local terms = KEYS[1]
local call = redis.call

local reply = {}
for i, row in ipairs(call('HMGET', terms, unpack(ARGV))) do
  local log = KEYS[i + 1]
  local length, active, oldest = call('XLEN', log), 0, ''
  if call('EXISTS', log) == 1 then active = call('XPENDING', log, 'w')[1] end
  if length > active then
    local after = ''
    for _, g in ipairs(call('XINFO', 'GROUPS', log)) do
      for k = 1, g[2] == 'w' and #g or 0, 2 do
        if g[k] == 'last-delivered-id' then after = g[k + 1] end
      end
    end
    local first = call('XRANGE', log, '(' .. after, '+', 'COUNT', 1)[1]
    oldest = first and first[1] or ''
  end
  for _, part in ipairs({row or '', length, active, oldest}) do reply[#reply + 1] = part end
end
return reply

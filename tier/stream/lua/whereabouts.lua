#!lua flags=allow-oom
-- Where entries of a group or a cursor stand, all at one moment, for the audit.
-- KEYS[1] log      STREAM  only looked at
-- KEYS[2] retry    ZSET    only looked at
-- KEYS[3] open     HASH    only looked at
-- KEYS[4] cursors  HASH    only looked at
-- ARGV[1] group    name, or that of a cursor
-- ARGV[2..] entries  ids
-- Replies {parked 0 | 1, row in open or '', pending 0 | 1, in the log 0 | 1, ... for each entry}; {} when there is no such group
--   or cursor; of a cursor, pending is what it is still to read
local log, retry, open, cursors = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group = ARGV[1]
local call = redis.call

local there, owned = false, nil
if call('EXISTS', log) == 1 then
  for _, g in ipairs(call('XINFO', 'GROUPS', log)) do there = there or g[2] == group end
end
if not there then owned = call('HMGET', cursors, group .. ':at', group .. ':above') end
if not there and not (owned[1] and string.find(owned[1], '^%d+%-%d+$')) then return {} end -- the row is damaged, and told of
local function parse(id)
  local ms, seq = string.match(id, '^(%d+)%-(%d+)$')
  return tonumber(ms) or 0, tonumber(seq) or 0
end
local function pending(id)
  if there then return call('XPENDING', log, group, id, id, 1)[1] end
  local ms, seq = parse(id)
  local at_ms, at_seq = parse(owned[1])
  local beyond = ms > at_ms or (ms == at_ms and seq > at_seq)
  return beyond and not string.find(' ' .. (owned[2] or '') .. ' ', ' ' .. id .. ' ', 1, true)
end
local stand = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  stand[#stand + 1] = call('ZSCORE', retry, id) and 1 or 0
  stand[#stand + 1] = call('HMGET', open, id)[1] or ''
  local is_id = string.match(id, '^%d+%-%d+$')
  stand[#stand + 1] = is_id and pending(id) and 1 or 0
  stand[#stand + 1] = is_id and call('XRANGE', log, id, id)[1] and 1 or 0
end
return stand

#!lua flags=allow-oom
-- Reads a page of a key's messages, in the order of their versions, and tells from the same moment whether one is gone.
-- KEYS[1] log    STREAM
-- KEYS[2] index  ZSET    member the address of a message, score its version
-- ARGV[1] from   version, included
-- ARGV[2] count  messages
-- ARGV[3] limit  bytes of fields: the page ends with the message that passes them
-- Replies {entries, version of the key, first version that is left after the page, or '' when none behind it is missing; '0': none}
local log, index = KEYS[1], KEYS[2]
local from, count, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local call = redis.call

local function below(a, b)
  local am, as = string.match(a, '^(%d+)%-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)%-(%d+)$')
  am, bm = tonumber(am), tonumber(bm)
  return am < bm or (am == bm and tonumber(as) < tonumber(bs))
end
local newest = call('ZRANGE', index, -1, -1, 'WITHSCORES')
local version = tonumber(newest[2] or 0)

local entries, bytes, gone = {}, 0, false
local page = call('ZRANGE', index, string.format('%.0f', from), '+inf', 'BYSCORE', 'LIMIT', 0, count, 'WITHSCORES')
for i = 1, #page, 2 do
  if bytes >= limit then break end
  local entry = tonumber(page[i + 1]) == from + #entries and call('XRANGE', log, page[i], page[i])[1]
  if not entry then gone = true; break end
  entries[#entries + 1] = entry
  for _, text in ipairs(entry[2]) do bytes = bytes + #text end
end

local first = ''
if gone then -- trims take from the front: what is at or above the head is there
  local head = call('XRANGE', log, '-', '+', 'COUNT', 1)
  local low, high = 0, call('ZCARD', index)
  while head[1] and low < high do
    local middle = math.floor((low + high) / 2)
    if below(call('ZRANGE', index, middle, middle)[1], head[1][1]) then low = middle + 1 else high = middle end
  end
  local left = head[1] and call('ZRANGE', index, low, low, 'WITHSCORES') or {}
  first = math.max(tonumber(left[2] or version + 1), from + #entries + 1)
  first = string.format('%.0f', first > version and 0 or first)
end
return {entries, string.format('%.0f', version), first}

#!lua flags=allow-oom
-- Reads a page of entries and tells, from the same moment, whether history that the reader counts on is gone.
-- KEYS[1] log      STREAM
-- ARGV[1] from     id, included
-- ARGV[2] to       id, included
-- ARGV[3] count    entries
-- ARGV[4] claim    what the reader counts on: 'none' | 'start' (nothing was ever removed from ARGV[1] on)
--   | 'seen' (the entry ARGV[1] was there at the last look) | 'tail' (all before ARGV[1] was read when ARGV[5] were added)
-- ARGV[5] added    entries ever added at that last look, 0 when unknown
-- ARGV[6] counter  '1': answer with the entries ever added now, if the page ends where the log does
-- ARGV[7] limit    bytes of fields: the page ends with the step that passes them, though not before its second entry
-- ARGV[8] step     entries that are read at a time
-- Replies {entries, gone ('1', 'lost': the log is another than the one that was read, or ''), first id that exists or '', entries ever added or '0', '1' if bytes ended it or ''}
local log = KEYS[1]
local from, to, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
local claim, added, counter = ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1'
local limit, step = tonumber(ARGV[7]), tonumber(ARGV[8])
local call = redis.call

local function below(a, b)
  local am, as = string.match(a, '^(%d+)%-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)%-(%d+)$')
  am, bm = tonumber(am), tonumber(bm)
  return am < bm or (am == bm and tonumber(as) < tonumber(bs))
end
local function counters()
  local n, length, top = 0, 0, '0-0'
  if call('EXISTS', log) == 1 then
    local info = call('XINFO', 'STREAM', log)
    for i = 1, #info, 2 do
      if info[i] == 'entries-added' then n = info[i + 1] end
      if info[i] == 'length' then length = info[i + 1] end
      if info[i] == 'last-generated-id' then top = info[i + 1] end
    end
  end
  return n, length, top
end

local entries, bytes, start, short = {}, 0, from, false
while not short and #entries < count and (bytes < limit or #entries < 2) do
  local want = math.min(step, count - #entries)
  local part = call('XRANGE', log, start, to, 'COUNT', want)
  for _, entry in ipairs(part) do
    entries[#entries + 1] = entry
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
  end
  short = #part < want
  if #part > 0 then start = '(' .. part[#part][1] end
end
local more = ''
if not short and #entries < count then more = '1' end
local gone, first = '', ''
if claim ~= 'none' and not (entries[1] and entries[1][1] == from) then
  local head = call('XRANGE', log, '-', '+', 'COUNT', 1)
  if head[1] then first = head[1][1] end
  if first == '' or below(from, first) then -- nothing up to `from` is left: was something after it removed?
    if claim == 'seen' then
      gone = '1'
    else
      local now, length, top = counters()
      if claim == 'start' and now > length and not below(top, from) then gone = '1' end
      if claim == 'tail' and now - added ~= length then gone = '1' end
    end
  end
end
local total = 0
if counter and short then
  total = counters()
  if total < added then gone = '1' end
end
if gone ~= '' and claim ~= 'start' then -- of the log that was read, something was removed since
  local now, length = counters()
  if now == length or now < added then gone = 'lost' end
end
return {entries, gone, first, string.format('%.0f', total), more}

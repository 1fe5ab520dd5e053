#!lua
-- Keeps a snapshot of what was folded from a log: none | an older one -> this one.
-- KEYS[1] snapshot HASH
-- KEYS[2] log      STREAM
-- ARGV[1] at       address of the last message that was folded
-- ARGV[2] entry    id of the entry that holds it
-- ARGV[3] state    bytes
-- Replies {code}: kept | older: there is a newer one | gone: the log has no such entry, and has given ids since: nobody could
--   tell whether something was lost after it, or whether it is another log
local snapshot, log = KEYS[1], KEYS[2]
local at, entry, state = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

local function below(a, b)
  local am, as = string.match(a, '^(%d+)%-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)%-(%d+)$')
  am, bm = tonumber(am), tonumber(bm)
  return am < bm or (am == bm and tonumber(as) < tonumber(bs))
end

local held = call('HGET', snapshot, 'at')
if held == at then return {'kept'} end
if held and string.match(held, '^%d+%-%d+$') and below(at, held) then return {'older'} end
if call('EXISTS', log) == 0 then return {'gone'} end
local added, top = 0, ''
local info = call('XINFO', 'STREAM', log)
for i = 1, #info, 2 do
  if info[i] == 'entries-added' then added = info[i + 1] end
  if info[i] == 'last-generated-id' then top = info[i + 1] end
end
if top ~= entry then
  if #call('XRANGE', log, entry, entry) == 0 then return {'gone'} end
  added = 0
end
call('HSET', snapshot, 'at', at, 'entry', entry, 'added', string.format('%.0f', added), 'state', state)
return {'kept'}

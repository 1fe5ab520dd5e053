#!lua
-- Declares a stream in its scope: undeclared or removed -> declared with a brand that no other stream of the scope has.
-- A no-op when it is declared already.
-- KEYS[1] scope          HASH
-- ARGV[1] node           the scope's node number, from the registry
-- ARGV[2] stream         name
-- ARGV[3] kind           what stands behind the brand: '' nothing, 'exclusive', 'keyed'; in a partition 'partition <index>/<layout>', 'keyed partition ...'
-- ARGV[4] wanted         '1' when ARGV[5] is the only brand that will do, else '0'
-- ARGV[5..] brands       candidates, best first; when none is wanted and all are taken, any free one will do
-- Replies {'ok', brand} | {'brand', brand it has} | {'taken', stream that has the wanted one} | {'full', ''}: no brand is free
--   | {'kind', the one that it has} | {'node', stored number} | {'partitioned', how many partitions the scope has}
--   | {'partition', which partition the scope is}: another than the kind says, or '' for none
local scope = KEYS[1]
local node, stream, kind, wanted = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'

local stored = redis.call('HGET', scope, 'node')
if stored and stored ~= node then return {'node', stored} end
local partitions, mark = redis.call('HGET', scope, 'partitions'), redis.call('HGET', scope, 'partition') or ''
if partitions then return {'partitioned', partitions} end
local index, layout = string.match(mark, ' (%S+) (%S+)$')
local part = string.match(kind, 'partition %S+$')
if part ~= (index and 'partition ' .. index .. '/' .. layout) then return {'partition', mark} end
local field = 'stream:' .. stream
local have = redis.call('HGET', scope, field)
local first = 5
local gone, brand, has = string.match(have or '', '^(%-?)(%u%u%u) ?(.*)$')
if gone == '' and has ~= kind then return {'kind', has} end
if brand and wanted and brand ~= ARGV[5] then return {'brand', brand} end
local holder
if not brand then
  for i = first, #ARGV do
    holder = redis.call('HGET', scope, 'brand:' .. ARGV[i])
    if not holder or holder == stream then brand = ARGV[i]; break end
  end
  if not brand and wanted then return {'taken', holder} end
  for n = 0, brand and -1 or 17575 do
    local any = string.char(65 + math.floor(n / 676), 65 + math.floor(n / 26) % 26, 65 + n % 26)
    if not redis.call('HGET', scope, 'brand:' .. any) then brand = any; break end
  end
  if not brand then return {'full', ''} end
end
local declaration = kind == '' and brand or brand .. ' ' .. kind
if have ~= declaration then
  redis.call('HSET', scope, 'node', node, field, declaration, 'brand:' .. brand, stream)
end
return {'ok', brand}

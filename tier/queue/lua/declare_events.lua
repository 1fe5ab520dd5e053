#!lua
-- Declares the events of a queue: absent -> kept; kept -> as many others. Their stream is declared in the scope, where no other
-- has its brand then. An entry that tells of nothing says that events begin there, after a time without; a new log begins 2 ms ahead, and
-- above all that was ahead of the clock: one that was removed may have given ids up to here.
-- KEYS[1] queue    HASH
-- KEYS[2] scope    HASH
-- KEYS[3] events   STREAM
-- ARGV[1] node     the scope's node number, from the registry
-- ARGV[2] stream   name of the events'
-- ARGV[3] bound    entries to keep
-- ARGV[4] brand    that the stream is to have, if it has none and no other has it
-- Replies {'ok', brand} | {'node', stored number} | {'kind', what the stream is declared as} | {'partitioned', ''} | {'full', ''}: no brand is free
local queue, scope, events = KEYS[1], KEYS[2], KEYS[3]
local node, stream, bound, brand = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call

local stored = call('HMGET', scope, 'node', 'partitions', 'partition', 'stream:' .. stream, 'top:' .. stream)
if stored[1] and stored[1] ~= node then return {'node', stored[1]} end
if stored[2] or stored[3] then return {'partitioned', ''} end
local have = string.match(stored[4] or '', '^%-?(%u%u%u)$')
if stored[4] and not have then return {'kind', stored[4]} end
local function free(b)
  local holder = call('HGET', scope, 'brand:' .. b)
  return not holder or holder == stream
end
brand = have or brand
for n = 0, (have or free(brand)) and -1 or 17575 do
  brand = string.char(65 + math.floor(n / 676), 65 + math.floor(n / 26) % 26, 65 + n % 26)
  if free(brand) then break end
  if n == 17575 then return {'full', ''} end
end
local new, was = call('EXISTS', events) == 0, call('HGET', queue, 'events')
local t = call('TIME')
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'HSET', scope, 'f', ''}, {'HSET', queue, 'f', ''}, {'XADD', events, '*', 'm', ''}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
if new or not was then
  local past = tonumber(string.match(stored[5] or '', '^%d+') or 0) + 1
  local id = new and string.format('%.0f-0', math.max(t[1] * 1000 + math.floor(t[2] / 1000) + 2, past)) or '*'
  call('XADD', events, id, 'm', '\149\1\164jobs\160\128\144')
end
call('HSET', scope, 'node', node, 'stream:' .. stream, brand, 'brand:' .. brand, stream)
call('HSET', queue, 'events', bound)
return {'ok', brand}

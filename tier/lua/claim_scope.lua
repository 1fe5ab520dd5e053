#!lua
-- Gives a scope its node number, for good: unregistered -> registered. A no-op when it is registered already.
-- KEYS[1] nodes          HASH  the registry
-- ARGV[1] scope          name
-- ARGV[2] proposed       number that the scope's hash or a process remembers, or -1
-- ARGV[3] hint           first number to try, 0..511
-- Replies {'ok', number} | {'differs', registered number} | {'taken', scope that holds the proposed number} | {'full', ''}
local nodes = KEYS[1]
local scope, proposed, hint = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local field = 'scope:' .. scope
local have = redis.call('HGET', nodes, field)
if have then
  if proposed >= 0 and tonumber(have) ~= proposed then return {'differs', have} end
  return {'ok', have}
end
local number = proposed
if proposed >= 0 then
  local holder = redis.call('HGET', nodes, 'node:' .. proposed)
  if holder and holder ~= scope then return {'taken', holder} end
else
  for i = 0, 511 do
    local n = (hint + i) % 512
    if redis.call('HEXISTS', nodes, 'node:' .. n) == 0 then number = n; break end
  end
  if number < 0 then return {'full', ''} end
end
redis.call('HSET', nodes, field, number, 'node:' .. number, scope)
return {'ok', tostring(number)}

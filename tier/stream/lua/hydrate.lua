#!lua
-- Puts the values of keys into a hash where they are newer than what is there: none | an older one -> this one.
-- KEYS[1] values  HASH
-- KEYS[2] mints   HASH  of each key, the address of the message that its value is from
-- ARGV[1..] keys, addresses, values  in turn
-- Replies {'ok', values that were written} | {'type', 0}: something else stands at one of the keys, and nothing was written
local values, mints = KEYS[1], KEYS[2]
local call = redis.call

for _, kind in ipairs({call('TYPE', values).ok, call('TYPE', mints).ok}) do
  if kind ~= 'none' and kind ~= 'hash' then return {'type', 0} end
end
local function below(a, b) -- by digits: a sequence may be beyond what a double counts
  local am, as = string.match(a, '^(%d+)%-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)%-(%d+)$')
  if am == bm then am, bm = as, bs end
  return #am < #bm or (#am == #bm and am < bm)
end
if not redis.acl_check_cmd('HSET', mints, 'f', 'v') then -- a right that is lacking must not show after the first write
  return redis.error_reply("NOPERM the user has no permissions to run the 'hset' command")
end
local n = 0
for i = 1, #ARGV, 3 do
  local key, at, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local held = call('HGET', mints, key)
  if not held or below(held, at) then
    call('HSET', values, key, value)
    call('HSET', mints, key, at)
    n = n + 1
  end
end
return {'ok', n}

#!lua
-- Puts entries beside a log into which they are to be restored, behind those that are there: up to one -> up to the last of these.
-- KEYS[1] staged  STREAM
-- ARGV[1] after   the last that is there, as the caller knows it; '0-0' is none
-- ARGV[2] last    of those that come
-- ARGV[3] ttl     ms for which all are kept
-- ARGV[4..] entries  of each its id, how many texts its fields have, and these
-- Replies 'ok' | 'changed': another one is the last, and nothing came
local staged = KEYS[1]
local after, last, ttl = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

local entry = call('XREVRANGE', staged, '+', '-', 'COUNT', 1)[1]
local newest = entry and entry[1] or '0-0'
if newest == last then return 'ok' end -- it was done before
if newest ~= after then return 'changed' end
for _, cmd in ipairs({{'XADD', staged, '*', 'f', 'v'}, {'PEXPIRE', staged, ttl}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local i = 4
while i < #ARGV do
  local n = tonumber(ARGV[i + 1])
  call('XADD', staged, ARGV[i], unpack(ARGV, i + 2, i + 1 + n))
  i = i + 2 + n
end
call('PEXPIRE', staged, ttl)
return 'ok'

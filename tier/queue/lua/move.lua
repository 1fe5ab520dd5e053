#!lua
-- Moves a job that nobody has to another lane: to the end of it when it is ready, else for when its time comes.
-- KEYS[1] jobs     HASH
-- KEYS[2] ring     ZSET
-- KEYS[3] terms    HASH  of lanes, only looked at
-- KEYS[4] leased   ZSET
-- KEYS[5] workers  HASH  only looked at
-- KEYS[6] wake     LIST
-- KEYS[7] from     STREAM  of the lane that the job is in
-- KEYS[8] into     STREAM  of the other lane
-- ARGV[1] id       of the job
-- ARGV[2] lane     name of the one that the job is in
-- ARGV[3] other    name of the other lane
-- Replies 'moved' | 'there' (it is in that lane) | 'active' | 'gone' (there is no such job) | '?<lane>' that it is in
local jobs, ring, terms, leased, workers, wake, from, into = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local id, lane, other = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

local row = call('HGET', jobs, id)
if not row then return 'gone' end
local outside, name = string.match(row, '^(%a %d+ %d+ )(.+)$')
if outside and name == other then return 'there' end
if outside then
  call('HSET', jobs, id, outside .. other)
  return 'moved'
end
local entry
entry, name = string.match(row, '^(%d+%-%d+) (.+)$')
if name == other then return 'there' end
if name ~= lane then return '?' .. name end
if call('XPENDING', from, 'w', entry, entry, 1)[1] then return 'active' end
local fields = call('XRANGE', from, entry, entry)[1][2]
local new = call('XLEN', into) == 0 and call('EXISTS', into) == 0
local paused = string.match(call('HGET', terms, other) or '1 0 0', '^%S+ %d+ (%d+)') ~= '0'
local head = call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0'
local bell = call('LLEN', wake) < math.floor(call('HLEN', workers) / 2)
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'XGROUP', 'CREATE', into, 'w', '0'}, {'XADD', into, '*', 'j', ''}, {'XDEL', from, '0-1'}, {'DEL', from}, {'HSET', jobs, 'f', ''},
  {'ZREM', leased, 'm'}, {'ZADD', ring, '0', 'm'}, {'RPUSH', wake, '1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
if new then call('XGROUP', 'CREATE', into, 'w', '0', 'MKSTREAM') end
call('HSET', jobs, id, call('XADD', into, '*', unpack(fields)) .. ' ' .. other)
call('XDEL', from, entry)
if call('XLEN', from) == 0 then
  call('DEL', from)
  call('ZREM', leased, name)
end
if not paused then
  call('ZADD', ring, 'NX', head, other)
  if bell then call('RPUSH', wake, '1') end
end
return 'moved'

#!lua flags=allow-oom
-- Removes a job that nobody has: ready, scheduled, waiting or dead -> gone, with its unique key and its result. Of a job of
-- a flow the outbox is told. The worker of an active one is told to give it up, if a reason is given.
-- KEYS[1] workers  HASH  only looked at
-- KEYS[2] jobs     HASH
-- KEYS[3] ring     ZSET
-- KEYS[4] terms    HASH  of lanes, only looked at
-- KEYS[5] leased   ZSET
-- KEYS[6] wake     LIST
-- KEYS[7] bodies   HASH
-- KEYS[8] due      ZSET
-- KEYS[9] dead     ZSET
-- KEYS[10] unique  HASH
-- KEYS[11] told    HASH  active job -> why it is cancelled
-- KEYS[12] result  LIST
-- KEYS[13] waiting ZSET
-- KEYS[14] outbox  STREAM
-- KEYS[15] log     STREAM  of the lane
-- ARGV[1] id       of the job
-- ARGV[2] lane     name, of the log
-- ARGV[3] reason   '' to leave an active job alone
-- Replies 'removed' | 'told' | 'active' | 'gone' (there is no such job) | '?<lane>' that it is in
local workers, jobs, ring, terms, leased, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local bodies, due, dead, unique, told, result = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12]
local waiting, outbox, log = KEYS[13], KEYS[14], KEYS[15]
local id, lane, reason = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

local row = call('HGET', jobs, id)
if not row then return 'gone' end
local entry, name = string.match(row, '^(%d+%-%d+) (.+)$')
if entry and name ~= lane then return '?' .. name end
local key, family
if entry then
  if call('XPENDING', log, 'w', entry, entry, 1)[1] then
    if reason == '' then return 'active' end
    call('HSET', told, id, reason)
    return 'told'
  end
  local held = call('XRANGE', log, entry, entry)[1]
  for k = 1, held and #held[2] or 0, 2 do
    if held[2][k] == 'u' then key = string.sub(held[2][k + 1], 2) end
    if held[2][k] == 'p' then family = held[2][k + 1] end
  end
else
  local body = call('HGET', bodies, id)
  if body then
    local held = cmsgpack.unpack(body)
    key, family = string.sub(held[3], 2), held[4]
  end
end
local mine = key and string.match(call('HGET', unique, key) or '', '^%S+') == id
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'HDEL', jobs, 'f'}, {'ZREM', due, 'm'}, {'DEL', result}, {'XDEL', log, '0-1'}, {'XLEN', log}, {'XPENDING', log, 'w'}, {'ZADD', ring, '0', 'm'},
  {'ZRANGE', ring, '0', '0'}, {'LLEN', wake}, {'HLEN', workers}, {'RPUSH', wake, '1'}, {'EXISTS', outbox},
  {'XGROUP', 'CREATE', outbox, 'w', '0'}, {'XADD', outbox, '*', 'j', ''}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
-- vacate begin: what a lane that jobs have left is after that: gone, or with room below its ceiling.
local function vacate(log, name)
  local waiting = call('XLEN', log)
  if waiting == 0 then
    call('DEL', log)
    call('ZREM', leased, name)
    return
  end
  local ceiling, paused = string.match(call('HGET', terms, name) or '', '^%S+ (%d+) (%d+)')
  if (ceiling or '0') ~= '0' and paused == '0' and waiting > call('XPENDING', log, 'w')[1] then
    call('ZADD', ring, 'NX', call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0', name)
    if call('LLEN', wake) < math.floor(call('HLEN', workers) / 2) then call('RPUSH', wake, '1') end
  end
end
-- vacate end
call('HDEL', jobs, id)
-- tell begin: that a job of a flow has ended, and how, goes to the outbox, for whom it concerns.
local function tell(id, family, outcome, text)
  if call('EXISTS', outbox) == 0 then call('XGROUP', 'CREATE', outbox, 'w', '0', 'MKSTREAM') end
  call('XADD', outbox, '*', 'j', id, 'p', family, 'e', outcome, 't', text)
end
-- tell end
if (family or '') ~= '' then tell(id, family, reason == '' and 'removed' or 'cancelled', reason) end
call('HDEL', bodies, id)
call('ZREM', due, id)
call('ZREM', dead, id)
call('ZREM', waiting, id)
call('DEL', result)
if mine then call('HDEL', unique, key) end
if entry then
  call('XDEL', log, entry)
  vacate(log, name)
end
return 'removed'

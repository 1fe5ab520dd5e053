#!lua flags=allow-oom
-- Removes a job that nobody has: ready, scheduled, retry, waiting or dead -> gone, with its unique key, its notes and its result. Of a
-- job of a flow the outbox is told. The worker of an active one is told to give it up, if a reason is given:
-- '<worker> <id>' on the channel, and with its next renewal.
-- KEYS[1] jobs     HASH
-- KEYS[2] bodies   HASH
-- KEYS[3] due      ZSET
-- KEYS[4] dead     ZSET
-- KEYS[5] unique   HASH
-- KEYS[6] told     HASH  active job -> why it is cancelled
-- KEYS[7] result   LIST
-- KEYS[8] waiting  ZSET
-- KEYS[9] outbox   STREAM
-- KEYS[10] notes   HASH
-- KEYS[11] log     STREAM  of the lane
-- KEYS[12] queue   HASH  only looked at
-- KEYS[13] events  STREAM
-- KEYS[14] channel CHANNEL
-- ARGV[1] id       of the job
-- ARGV[2] lane     name, of the log
-- ARGV[3] reason   '' to leave an active job alone
-- Replies 'removed' | 'told' | 'active' | 'gone' (there is no such job) | '?<lane>' that it is in
local jobs, bodies, due, dead, unique, told, result = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local waiting, outbox, notes, log, queue, events, channel = KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local id, lane, reason = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

local row = call('HGET', jobs, id)
if not row then return 'gone' end
local entry, name = string.match(row, '^(%d+%-%d+) (.+)$')
if entry and name ~= lane then return '?' .. name end
local key, family
if entry then
  local pending = call('EXISTS', log) == 1 and call('XPENDING', log, 'w', entry, entry, 1)[1] -- or the lane is gone, and took the job along
  if pending then
    if reason == '' then return 'active' end
    redis.pcall('SPUBLISH', channel, pending[2] .. ' ' .. id) -- what it is told for is there when it asks; without the channel it is with its renewal
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
-- report begin: what becomes of jobs goes to the events of the queue, if it has any, in one entry for the call.
local bound, news = call('HGET', queue, 'events'), {}
-- by: the worker or the schedule that did it; ms: how long the job was what it no longer is, -1 when that is not known.
local function report(id, from, to, lane, by, reason, ms)
  if not bound then return end
  local last = news[#news]
  reason = string.sub(reason, 1, 200)
  if not last or last[1] ~= from or last[2] ~= to or last[3] ~= lane or last[4] ~= by or last[5] ~= reason then
    last = {from, to, lane, by, reason, {}, {}}
    news[#news + 1] = last
  end
  last[6][#last[6] + 1] = id
  if ms then last[7][#last[7] + 1] = ms end
end
local function publish() -- what was done is not undone by an event that cannot be appended
  local id = #news > 0 and redis.pcall('XADD', events, 'NOMKSTREAM', 'MAXLEN', '~', bound, '*', 'm', '\149\1\164jobs\160\128' .. cmsgpack.pack(news))
  local ms = type(id) == 'string' and string.match(id, '^(%d+)%-4095$')
  if ms then redis.pcall('XSETID', events, string.format('%.0f-0', ms + 1)) end
end
-- report end
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'HDEL', jobs, 'f'}, {'ZREM', due, 'm'}, {'DEL', result}, {'XDEL', log, '0-1'}, {'XLEN', log}, {'EXISTS', outbox},
  {'XGROUP', 'CREATE', outbox, 'w', '0'}, {'XADD', outbox, '*', 'j', ''},
  {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
call('HDEL', jobs, id)
-- tell begin: that a job of a flow has ended, and how, goes to the outbox, for whom it concerns.
local function tell(id, family, outcome, text)
  if call('EXISTS', outbox) == 0 then call('XGROUP', 'CREATE', outbox, 'w', '0', 'MKSTREAM') end
  call('XADD', outbox, '*', 'j', id, 'p', family, 'e', outcome, 't', text)
end
-- tell end
if (family or '') ~= '' then tell(id, family, reason == '' and 'removed' or 'cancelled', reason) end
call('HDEL', bodies, id)
call('HDEL', notes, id)
call('ZREM', due, id)
call('ZREM', dead, id)
call('ZREM', waiting, id)
call('DEL', result)
if mine then call('HDEL', unique, key) end
if entry then
  call('XDEL', log, entry)
  if call('XLEN', log) == 0 then call('DEL', log) end -- who looks whether a lease has ended there counts what was active
end
local letter, place = string.match(row, '^(%a) %d+ %d+ (.+)$')
local from = letter and ({s = 'scheduled', r = 'retry', w = 'waiting', d = 'dead'})[letter] or 'ready'
report(id, from, 'gone', place or name, '', reason == '' and 'removed' or 'cancelled: ' .. reason)
publish()
return 'removed'

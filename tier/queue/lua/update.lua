#!lua
-- Updates what a job carries that nobody has: a ready one goes to the end of its lane, any other stays where it is.
-- KEYS[1] jobs     HASH
-- KEYS[2] bodies   HASH
-- KEYS[3] log      STREAM  of the lane
-- KEYS[4] queue    HASH  only looked at
-- KEYS[5] events   STREAM
-- ARGV[1] id       of the job
-- ARGV[2] lane     name, of the log
-- ARGV[3] message
-- Replies 'updated' | 'active' | 'gone' (there is no such job) | '?<lane>' that it is in
local jobs, bodies, log, queue, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, lane, message = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

local row = call('HGET', jobs, id)
if not row then return 'gone' end
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'HSET', jobs, 'f', ''}, {'XDEL', log, '0-1'}, {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
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
local entry, name = string.match(row, '^(%d+%-%d+) (.+)$')
if not entry then
  local body = cmsgpack.unpack(call('HGET', bodies, id))
  body[1] = message
  call('HSET', bodies, id, cmsgpack.pack(body))
  local state = ({s = 'scheduled', r = 'retry', w = 'waiting', d = 'dead'})[string.sub(row, 1, 1)]
  report(id, state, state, string.match(row, '^%a %d+ %d+ (.+)$'), '', 'updated')
  publish()
  return 'updated'
end
if name ~= lane then return '?' .. name end
if call('EXISTS', log) == 0 then return 'gone' end -- the lane took the job along
if call('XPENDING', log, 'w', entry, entry, 1)[1] then return 'active' end
local held = call('XRANGE', log, entry, entry)[1]
if not held then return 'gone' end
local fields = held[2]
for k = 1, #fields, 2 do
  if fields[k] == 'm' then fields[k + 1] = message end
end
call('HSET', jobs, id, call('XADD', log, '*', unpack(fields)) .. ' ' .. name) -- before the lane may be empty
call('XDEL', log, entry)
report(id, 'ready', 'ready', name, '', 'updated')
publish()
return 'updated'

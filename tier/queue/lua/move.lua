#!lua
-- Moves a job that nobody has to another lane: to the end of it when it is ready, else for when its time comes.
-- KEYS[1] jobs     HASH
-- KEYS[2] ring     ZSET
-- KEYS[3] terms    HASH  of lanes, only looked at
-- KEYS[4] workers  HASH  only looked at
-- KEYS[5] wake     LIST
-- KEYS[6] from     STREAM  of the lane that the job is in
-- KEYS[7] into     STREAM  of the other lane
-- KEYS[8] queue    HASH  only looked at
-- KEYS[9] events   STREAM
-- ARGV[1] id       of the job
-- ARGV[2] lane     name of the one that the job is in
-- ARGV[3] other    name of the other lane
-- Replies 'moved' | 'there' (it is in that lane) | 'active' | 'gone' (there is no such job) | '?<lane>' that it is in
local jobs, ring, terms, workers, wake, from, into, queue, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local id, lane, other = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

local row = call('HGET', jobs, id)
if not row then return 'gone' end
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'XGROUP', 'CREATE', into, 'w', '0'}, {'XADD', into, '*', 'j', ''}, {'XDEL', from, '0-1'}, {'DEL', from}, {'HSET', jobs, 'f', ''},
  {'ZADD', ring, '0', 'm'}, {'RPUSH', wake, '1'},
  {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}}) do
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
local outside, name = string.match(row, '^(%a %d+ %d+ )(.+)$')
local state = ({s = 'scheduled', r = 'retry', w = 'waiting', d = 'dead'})[string.sub(row, 1, 1)]
if outside and name == other then return 'there' end
if outside then
  call('HSET', jobs, id, outside .. other)
  report(id, state, state, other, '', 'moved')
  publish()
  return 'moved'
end
local entry
entry, name = string.match(row, '^(%d+%-%d+) (.+)$')
if name == other then return 'there' end
if name ~= lane then return '?' .. name end
if call('EXISTS', from) == 0 then return 'gone' end -- the lane took the job along
if call('XPENDING', from, 'w', entry, entry, 1)[1] then return 'active' end
local held = call('XRANGE', from, entry, entry)[1]
if not held then return 'gone' end
local new = call('XLEN', into) == 0 and call('EXISTS', into) == 0
local paused = string.match(call('HGET', terms, other) or '1 0 0', '^%S+ %d+ (%d+)') ~= '0'
local head = call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0'
local bell = call('LLEN', wake) < math.floor(call('HLEN', workers) / 2)
if new then call('XGROUP', 'CREATE', into, 'w', '0', 'MKSTREAM') end
call('HSET', jobs, id, call('XADD', into, '*', unpack(held[2])) .. ' ' .. other)
call('XDEL', from, entry)
if call('XLEN', from) == 0 then call('DEL', from) end -- who looks whether a lease has ended there counts what was active
report(id, 'ready', 'ready', other, '', 'moved')
publish()
if not paused then
  call('ZADD', ring, 'NX', head, other)
  if bell then call('RPUSH', wake, '1') end
end
return 'moved'

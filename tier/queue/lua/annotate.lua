#!lua
-- Notes how far a job is, or lines of its log, of a job that is not done. What is noted stays with the job until it has ended or is removed;
-- of lines the oldest are dropped that are too many. A call that is sent again adds its lines once.
-- KEYS[1] jobs     HASH  only looked at
-- KEYS[2] notes    HASH
-- KEYS[3] log      STREAM  of the lane, only looked at
-- KEYS[4] queue    HASH  only looked at
-- KEYS[5] events   STREAM
-- ARGV[1] id       of the job
-- ARGV[2] lane     name, of the log
-- ARGV[3] member   who is to hold it, or '' for anybody
-- ARGV[4] what     'progress' | 'log'
-- ARGV[5] token    of the call
-- ARGV[6] most     lines to keep
-- ARGV[7] bytes    of lines to keep
-- ARGV[8..]        how far it is, or the lines
-- Replies how many lines are kept | 'gone' (there is no such job) | 'lost' (the member does not hold it) | '?<lane>' that it is in
local jobs, notes, log, queue, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, lane, member, what, token, most, bytes = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local fixed, width = 3, 3 -- {progress, when, lines that there ever were, then for each line when, token, text}
local call = redis.call

local row = call('HGET', jobs, id)
if not row then return member == '' and 'gone' or 'lost' end
local entry, name = string.match(row, '^(%d+%-%d+) (.+)$')
if entry and name ~= lane then return '?' .. name end
local there = not entry or call('EXISTS', log) == 1 -- or the lane took the job along
local pending = entry and there and call('XPENDING', log, 'w', entry, entry, 1)[1]
if member ~= '' and not (pending and pending[2] == member) then return 'lost' end
if not there then return 'gone' end
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'HSET', notes, 'f', ''}, {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}}) do
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
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local text = call('HGET', notes, id)
local had = text and cmsgpack.unpack(text) or {'', 0, 0}
if what == 'progress' then
  local letter, place = string.match(row, '^(%a) %d+ %d+ (.+)$')
  local state = letter and ({s = 'scheduled', r = 'retry', w = 'waiting', d = 'dead'})[letter] or pending and 'active' or 'ready'
  if had[2] == 0 or had[1] ~= ARGV[8] then report(id, state, state, place or name, member, 'progress: ' .. ARGV[8]) end
  had[1], had[2] = ARGV[8], now
else
  for k = fixed + 2, #had, width do
    if had[k] == token then return tostring((#had - fixed) / width) end
  end
  for i = 8, #ARGV do
    for _, value in ipairs({now, token, ARGV[i]}) do had[#had + 1] = value end
  end
  had[3] = had[3] + #ARGV - 7
end
local first, size = #had + 1, 0 -- of what is kept, from the newest back
while first > fixed + 1 and #had + 1 - first < most * width do
  size = size + #had[first - 1]
  if size > bytes then break end
  first = first - width
end
local kept = {had[1], had[2], had[3], unpack(had, first)}
call('HSET', notes, id, cmsgpack.pack(kept))
publish()
return tostring((#kept - fixed) / width)

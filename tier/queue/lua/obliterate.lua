#!lua flags=allow-oom
-- Deletes keys of a paused queue. That of the queue itself, which says that it is paused, goes last and with no other.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] queue    HASH
-- KEYS[2] events   STREAM
-- KEYS[3..] keys   ANY
-- ARGV[1] last     '1' to delete the queue's own key
-- Replies how many keys were deleted, or -1 when the queue is not paused
local queue, events = KEYS[1], KEYS[2]
local last = ARGV[1]
local call = redis.call

if not call('HGET', queue, 'paused') then return -1 end
for _, cmd in ipairs({{'UNLINK', queue}, {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}}) do -- asked first, since it must not show halfway
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
local gone = 0
for i = 3, #KEYS do gone = gone + call('UNLINK', KEYS[i]) end
if last == '1' then
  gone = gone + call('UNLINK', queue)
  report('', '', 'gone', '', '', 'obliterated') -- all jobs
end
publish()
return gone

#!lua flags=allow-oom
-- Takes dead jobs up again: dead -> retry, due at once, with all their attempts before them. What they had come to is dropped.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] jobs     HASH
-- KEYS[2] due      ZSET
-- KEYS[3] dead     ZSET
-- KEYS[4] workers  HASH  only looked at
-- KEYS[5] wake     LIST
-- KEYS[6] queue    HASH  only looked at
-- KEYS[7] events   STREAM
-- KEYS[8..] results  LIST  of the jobs
-- ARGV[1..] ids    of the jobs
-- Replies for each job 1 | 0 when it is not dead
local jobs, due, dead, workers, wake, queue, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local call = redis.call

local t = call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local rows = call('HMGET', jobs, unpack(ARGV))
local bells = math.floor(call('HLEN', workers) / 2) - call('LLEN', wake)
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'ZREM', dead, 'm'}, {'ZADD', due, '0', 'm'}, {'HSET', jobs, 'f', ''}, {'DEL', due}, {'RPUSH', wake, '1'},
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
local out, any = {}, false
for i = 1, #ARGV do
  local name = string.match(rows[i] or '', '^d %d+ %d+ (.+)$')
  out[i] = name and call('ZREM', dead, ARGV[i]) or 0
  if out[i] == 1 then
    any = true
    call('ZADD', due, now, ARGV[i])
    call('HSET', jobs, ARGV[i], 'r ' .. now .. ' 0 ' .. name)
    local result = KEYS[7 + i]
    call('DEL', result)
    report(ARGV[i], 'dead', 'retry', name, '', '')
  end
end
if any and bells > 0 then call('RPUSH', wake, '1') end
publish()
return out

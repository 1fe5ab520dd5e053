#!lua
-- Enqueues the jobs of a flow that are of this queue, once, however often they are sent: absent -> due, of those without children;
-- absent -> waiting, of those with some, which are counted from then on. What is of other queues goes to the outbox, to
-- be sent there. A job that is there already refuses all.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] calls    STRING  that the call was made
-- KEYS[2] jobs     HASH
-- KEYS[3] bodies   HASH
-- KEYS[4] due      ZSET
-- KEYS[5] waiting  ZSET
-- KEYS[6] outbox   STREAM
-- KEYS[7] workers  HASH  only looked at
-- KEYS[8] wake     LIST
-- KEYS[9] queue    HASH  only looked at
-- KEYS[10] events  STREAM
-- KEYS[11..] keys  HASH  of the children of those jobs that have some, in their order
-- ARGV[1] ttl      ms that calls lives
-- ARGV[2] count    of jobs
-- ARGV[3..]        for each job: id, lane, '' | '+ms' from now | unix ms, message, options, family, how many children, and for each
--   its id and '<queue> <policy>'; then for each part of the flow that is of another queue: that queue, the part
-- Replies 'ok' | 'dup' (an earlier sending's) | the id of the job that is there already
local calls, jobs, bodies, due, waiting, outbox, workers, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local queue, events = KEYS[9], KEYS[10]
local ttl, count = ARGV[1], tonumber(ARGV[2])
local args = 7
local call = redis.call

if call('EXISTS', calls) == 1 then return 'dup' end
local list, at = {}, 3
for _ = 1, count do
  if call('HEXISTS', jobs, ARGV[at]) == 1 then return ARGV[at] end
  list[#list + 1] = at
  at = at + args + 2 * ARGV[at + 6]
end
local first_due = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
local bell = call('LLEN', wake) < math.floor(call('HLEN', workers) / 2)
call('HLEN', bodies)
call('ZCARD', waiting)
local fresh = call('EXISTS', outbox) == 0
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'SET', calls, ''}, {'HSET', jobs, 'f', ''}, {'ZADD', due, '0', 'm'}, {'DEL', outbox}, {'XGROUP', 'CREATE', outbox, 'w', '0'}, {'XADD', outbox, '*', 'q', ''},
  {'RPUSH', wake, '1'}, {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}}) do
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
local parents = 0
for _, i in ipairs(list) do
  local id, lane, when, message, options, family, n = unpack(ARGV, i, i + 6)
  local ms = string.sub(when, 1, 1) == '+' and now + tonumber(string.sub(when, 2)) or math.max(now, tonumber(when) or 0)
  local text = string.format('%.0f', ms)
  call('HSET', bodies, id, cmsgpack.pack({message, options, '', family, ''}))
  report(id, 'absent', n == '0' and 'scheduled' or 'waiting', lane, '', '')
  if n == '0' then
    call('ZADD', due, text, id)
    call('HSET', jobs, id, 's ' .. text .. ' 0 ' .. lane)
  else
    local children = KEYS[11 + parents]
    parents = parents + 1
    call('DEL', children)
    call('HSET', children, 'open', n)
    for k = i + args, i + args - 1 + 2 * n, 2 do call('HSET', children, ARGV[k], ARGV[k + 1] .. ' open ') end
    call('ZADD', waiting, string.format('%.0f', now), id)
    call('HSET', jobs, id, 'w ' .. text .. ' 0 ' .. lane)
  end
end
if fresh and at <= #ARGV then call('XGROUP', 'CREATE', outbox, 'w', '0', 'MKSTREAM') end
for i = at, #ARGV, 2 do call('XADD', outbox, '*', 'q', ARGV[i], 'f', ARGV[i + 1]) end
local next_due = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
if bell and next_due ~= first_due then call('RPUSH', wake, '1') end
call('SET', calls, '1 ', 'PX', ttl)
publish()
return 'ok'

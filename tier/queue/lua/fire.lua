#!lua
-- Fires a schedule: its next occurrence moves on, and for each one that was due a job is made: absent -> scheduled, and due. A caller
-- that has read another declaration or another occurrence than is there changes nothing: somebody was faster. No job is made
-- whose unique key another one has.
-- KEYS[1] schedules    HASH
-- KEYS[2] occurrences  ZSET
-- KEYS[3] jobs         HASH
-- KEYS[4] bodies       HASH
-- KEYS[5] due          ZSET
-- KEYS[6] workers      HASH  only looked at
-- KEYS[7] wake         LIST
-- KEYS[8] unique       HASH
-- KEYS[9] queue        HASH  only looked at
-- KEYS[10] events      STREAM
-- ARGV[1] name         of the schedule
-- ARGV[2] declaration  as the caller has read it
-- ARGV[3] occurrence   ms, as the caller has read it; it is due
-- ARGV[4] following    ms, or '' when there is none
-- ARGV[5..]            for each job: id, its occurrence in ms, lane, message, options, and of its unique key: how long it has it and
--   the key, as enqueue.lua takes it, or '', and the period in ms
-- Replies 1 | 0 (somebody was faster)
local schedules, occurrences, jobs, bodies, due, workers, wake, unique = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local queue, events = KEYS[9], KEYS[10]
local name, declaration, occurrence, following = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local first, args = 5, 7
local call = redis.call

if call('HGET', schedules, name) ~= declaration then return 0 end
local at = call('ZSCORE', occurrences, name)
if not at or tonumber(at) ~= tonumber(occurrence) then return 0 end
local head = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
local bells = math.min(1, math.floor(call('HLEN', workers) / 2) - call('LLEN', wake))
call('HLEN', jobs)
call('HLEN', bodies)
call('HLEN', unique)
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for _, cmd in ipairs({{'ZADD', due, '0', 'm'}, {'HSET', jobs, 'f', ''}, {'RPUSH', wake, '1'}, {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
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

if following ~= '' then call('ZADD', occurrences, following, name) else call('ZREM', occurrences, name) end
local function free(key) -- whether no job has it
  local id, mode, till = string.match(call('HGET', unique, key) or '', '^(%S+) (%a) (%d+)$')
  if not id then return true end
  if mode == 'p' then return tonumber(till) <= now end
  return call('HEXISTS', jobs, id) == 0
end
local made = 0
for i = first, #ARGV, args do
  local id, ms, lane, message, options, key, period = unpack(ARGV, i, i + 6)
  local name_of_key = string.sub(key, 2)
  if key == '' or free(name_of_key) then
    call('HSET', bodies, id, cmsgpack.pack({message, options, key, '', ''}))
    call('ZADD', due, ms, id)
    call('HSET', jobs, id, 's ' .. ms .. ' 0 ' .. lane)
    call('HSET', schedules, name .. ':last', ms .. ' ' .. id)
    if key ~= '' then call('HSET', unique, name_of_key, id .. ' ' .. string.sub(key, 1, 1) .. string.format(' %.0f', now + period)) end
    made = made + 1
    report(id, 'absent', 'scheduled', lane, name, 'fired')
  end
end
if made > 0 and bells > 0 and (not head or tonumber(head) > tonumber(occurrence)) then call('RPUSH', wake, '1') end
publish()
return 1

#!lua
-- Promotes jobs that are due: scheduled -> ready, in their lanes. Those of lanes that were not declared are left, and their
-- lanes answered, to be declared next time.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] queue    HASH  only looked at
-- KEYS[2] jobs     HASH
-- KEYS[3] bodies   HASH
-- KEYS[4] due      ZSET
-- KEYS[5] ring     ZSET
-- KEYS[6] terms    HASH  of lanes, only looked at
-- KEYS[7] workers  HASH  only looked at
-- KEYS[8] wake     LIST
-- KEYS[9] events   STREAM
-- KEYS[10..] logs  STREAM  of lanes
-- ARGV[1] count    of jobs to look at
-- ARGV[2..]        names of the lanes
-- Replies {1 | 0 when the queue is paused, jobs promoted, lanes of those left, ms until the first of the rest is due or -1}
local queue, jobs, bodies, due, ring, terms, workers, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local events = KEYS[9]
local count = ARGV[1]
local call = redis.call

if call('HGET', queue, 'paused') then return {0, 0, {}, -1} end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'XGROUP', 'CREATE', ring, 'w', '0'}, {'XADD', ring, '*', 'j', ''}, {'HSET', jobs, 'f', ''}, {'HDEL', bodies, 'f'}, {'ZREM', due, 'm'},
  {'ZADD', ring, '0', 'm'}, {'EXISTS', ring}, {'HLEN', workers}, {'LLEN', wake}, {'RPUSH', wake, '1'},
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
local declared = {}
for i = 2, #ARGV do
  local log = KEYS[i + 8]
  call('XLEN', log)
  declared[ARGV[i]] = i + 8
end
local ids = call('ZRANGEBYSCORE', due, '-inf', string.format('%.0f', now), 'LIMIT', 0, count)
local rows = ids[1] and call('HMGET', jobs, unpack(ids)) or {}
local head = call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0'
local promoted, bells, left, filled = 0, 0, {}, {}
for k, id in ipairs(ids) do
  local letter, attempts, name = string.match(rows[k] or '', '^(%a) %d+ (%d+) (.*)$')
  local body = name and call('HGET', bodies, id)
  if not body then
    call('ZREM', due, id) -- of a job that is gone
  elseif not declared[name] then
    left[name] = true
  else
    local log = KEYS[declared[name]]
    local held = cmsgpack.unpack(body)
    local add = {log, '*', 'j', id, 'm', held[1]}
    for f, value in pairs({a = attempts ~= '0' and attempts or '', o = held[2], u = held[3], p = held[4]}) do
      if value ~= '' then
        add[#add + 1] = f
        add[#add + 1] = value
      end
    end
    if call('EXISTS', log) == 0 then call('XGROUP', 'CREATE', log, 'w', '0', 'MKSTREAM') end
    call('HSET', jobs, id, call('XADD', unpack(add)) .. ' ' .. name)
    call('HDEL', bodies, id)
    call('ZREM', due, id)
    if filled[name] == nil then
      filled[name] = (string.match(call('HGET', terms, name) or '1 0 0', '^%S+ %d+ (%d+)')) == '0'
      if filled[name] then call('ZADD', ring, 'NX', head, name) end
    end
    promoted = promoted + 1
    report(id, letter == 'r' and 'retry' or 'scheduled', 'ready', name, '', '')
    if filled[name] then bells = bells + 1 end
  end
end
bells = math.min(bells, math.floor(call('HLEN', workers) / 2) - call('LLEN', wake))
for _ = 1, bells do call('RPUSH', wake, '1') end
publish()
local undeclared = {}
for name in pairs(left) do undeclared[#undeclared + 1] = name end
local next_due = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
return {1, promoted, undeclared, next_due and math.max(0, next_due - now) or -1}

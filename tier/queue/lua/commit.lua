#!lua
-- Ends deliveries of jobs with all that comes of them: active -> done, with a result; scheduled again; or dead. Of a job
-- of a flow that has ended, the outbox is told. A job that is not where the caller has it is left alone: an earlier sending
-- ended it, or it is another's. One that is cancelled is done, or dead for that reason.
-- At rest only: keys are touched again that it may have emptied.
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
-- KEYS[12] outbox  STREAM
-- KEYS[13] notes   HASH
-- KEYS[14] queue   HASH  only looked at
-- KEYS[15] events  STREAM
-- KEYS[16] active  HASH  lane -> how many of its jobs are, where the queue has a ceiling
-- KEYS[17..] keys  STREAM  of lanes, then LIST of results
-- ARGV[1] member   name
-- ARGV[2] number   of the member
-- ARGV[3] ask      1 in the first call of the member: whether it has the rights; else ''
-- ARGV[4..]        for each job: number of its lane's key, name of the lane, entry, id, attempts that count, then
--   'done', 0, result | 'again', ms until it is due, error | 'dead', 0, error; then ms to keep what it came to, and the number of its
--   key, or 0 and 0; how many ms the member had it, -1 when it does not know
-- Replies how many were ended, or -1 when fenced
local workers, jobs, ring, terms, leased, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local bodies, due, dead, unique, told, outbox, notes = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local queue, events, active = KEYS[14], KEYS[15], KEYS[16]
local member, number, ask = ARGV[1], ARGV[2], ARGV[3]
local first_job, args = 4, 11
local call = redis.call

if call('HGET', workers, member) ~= number then return -1 end
for i = first_job, #ARGV, args do
  local log = KEYS[16 + ARGV[i]]
  call('XLEN', log)
end
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs(ask ~= '' and {{'HSET', bodies, 'f', ''}, {'HDEL', jobs, 'f'}, {'HDEL', unique, 'f'}, {'PEXPIRE', dead, '1'}, {'ZADD', due, '0', 'm'}, {'XDEL', ring, '0-1'}, {'DEL', ring},
  {'ZREM', leased, 'm'}, {'XPENDING', ring, 'w'}, {'LLEN', wake}, {'HLEN', workers}, {'RPUSH', wake, '1'},
  {'EXISTS', outbox}, {'XGROUP', 'CREATE', outbox, 'w', '0'}, {'XADD', outbox, '*', 'j', ''},
  {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}} or {}) do
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
local function fields(entry)
  local held = {m = '', o = '', u = '', p = ''}
  for k = 1, #entry[2], 2 do held[entry[2][k]] = entry[2][k + 1] end
  return held
end
-- tell begin: that a job of a flow has ended, and how, goes to the outbox, for whom it concerns.
local function tell(id, family, outcome, text)
  if call('EXISTS', outbox) == 0 then call('XGROUP', 'CREATE', outbox, 'w', '0', 'MKSTREAM') end
  call('XADD', outbox, '*', 'j', id, 'p', family, 'e', outcome, 't', text)
end
-- tell end
-- Frees the unique key of a job that has it until it has ended.
local function free(held, id)
  local key = string.match(held, '^[sd](.*)$')
  if key and string.match(call('HGET', unique, key) or '', '^%S+') == id then call('HDEL', unique, key) end
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
local function expired(options)
  local readable, terms = pcall(cmsgpack.unpack, options)
  return readable and type(terms) == 'table' and (terms.d or now) < now
end
local first_due, ended = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2], 0
local capped, left, pending = call('HEXISTS', active, '') == 1, {}, {}
-- count begin: how many jobs are active in some lanes is noted, of a queue with a ceiling. Returns how much more room there is than before.
local function count(pending)
  local sum, ceiling = string.match(call('HGET', active, '') or '', '^(%d+) (%d+)$')
  if not sum then return 0 end
  local fewer = 0
  for name, n in pairs(pending) do
    fewer = fewer + (call('HGET', active, name) or 0) - n
    if n > 0 then call('HSET', active, name, n) else call('HDEL', active, name) end
  end
  call('HSET', active, '', string.format('%.0f %s', math.max(0, sum - fewer), ceiling))
  return math.min(fewer, ceiling - sum + fewer)
end
-- count end
for i = first_job, #ARGV, args do
  local log = KEYS[16 + ARGV[i]]
  local name, entry, id, attempts, what, ms, text, keep, at, had = unpack(ARGV, i + 1, i + 10)
  local held = call('HGET', jobs, id) == entry .. ' ' .. name and call('XRANGE', log, entry, entry)[1]
  if held and call('XACK', log, 'w', entry) == 1 then
    ended = ended + 1
    local cancelled = call('HGET', told, id)
    if cancelled then
      call('HDEL', told, id)
      if what ~= 'done' then what, ms, text = 'dead', 0, 'cancelled: ' .. cancelled end
    end
    local job = fields(held)
    if what ~= 'again' then
      free(job.u, id)
      if job.p ~= '' then tell(id, job.p, what == 'done' and 'completed' or cancelled and 'cancelled' or expired(job.o) and 'expired' or 'dead', what == 'dead' and cancelled or text) end
    end
    report(id, 'active', what == 'again' and 'retry' or what, name, member, what == 'done' and '' or text, tonumber(had))
    if what == 'done' then
      call('HDEL', jobs, id)
      call('HDEL', notes, id)
    else
      call('HSET', bodies, id, cmsgpack.pack({job.m, job.o, job.u, job.p, text})) -- the last is why it failed
      local when = string.format('%.0f', now + ms)
      if what == 'again' then
        call('ZADD', due, when, id)
        call('HSET', jobs, id, 'r ' .. when .. ' ' .. attempts .. ' ' .. name)
      else
        call('ZADD', dead, when, id)
        call('HSET', jobs, id, 'd ' .. when .. ' ' .. attempts .. ' ' .. name)
      end
    end
    if at ~= '0' and what ~= 'again' then
      local result = KEYS[16 + at]
      call('DEL', result)
      call('RPUSH', result, what .. ' ' .. text)
      call('PEXPIRE', result, keep)
    end
    call('XDEL', log, entry)
    vacate(log, name)
    left[name] = log
  end
end
for name, log in pairs(capped and left or {}) do pending[name] = call('EXISTS', log) == 1 and call('XPENDING', log, 'w')[1] or 0 end
-- wake begin: for each job that there is room for again a worker wakes, if a lane has its turn.
local function awake(room)
  if room > 0 and call('ZRANGE', ring, 0, 0)[1] then
    for _ = 1, math.min(room, math.floor(call('HLEN', workers) / 2) - call('LLEN', wake)) do call('RPUSH', wake, '1') end
  end
end
-- wake end
awake(capped and count(pending) or 0)
local next_due = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
if next_due and next_due ~= first_due and call('LLEN', wake) < math.floor(call('HLEN', workers) / 2) then call('RPUSH', wake, '1') end
publish()
return ended

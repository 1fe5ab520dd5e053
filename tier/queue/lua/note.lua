#!lua
-- Notes how children of jobs have ended: open -> its outcome, once. What that is to the parent, the child's policy says: when it
-- fails, waiting -> dead; when it goes on, or no child is open any more, waiting -> due. A parent that does not wait is only told.
-- What is left of children whose parent is no more is deleted.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] jobs     HASH
-- KEYS[2] bodies   HASH
-- KEYS[3] due      ZSET
-- KEYS[4] dead     ZSET
-- KEYS[5] waiting  ZSET
-- KEYS[6] outbox   STREAM
-- KEYS[7] workers  HASH  only looked at
-- KEYS[8] wake     LIST
-- KEYS[9] queue    HASH  only looked at
-- KEYS[10] events  STREAM
-- KEYS[11..] keys  HASH  of the children of parents, each with the LIST of the parent's result behind it
-- ARGV[1..]        for each note: number of its hash, parent, child or '' when there is nothing to note, outcome, text: the result of
--   a completed child, else why
-- Replies {how many were noted, how many parents failed}
local jobs, bodies, due, dead, waiting, outbox, workers, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local queue, events = KEYS[9], KEYS[10]
local args, places = 5, {dead = 1, cancelled = 2, expired = 3, removed = 4}
local call = redis.call

for i = 11, #KEYS - 1, 2 do call('HLEN', KEYS[i]) end
call('ZSCORE', dead, '')
call('HLEN', bodies)
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'DEL', jobs}, {'HGET', jobs, 'f'}, {'HSET', jobs, 'f', ''}, {'HINCRBY', jobs, 'f', '1'}, {'ZREM', waiting, 'm'}, {'ZADD', due, '0', 'm'}, {'EXISTS', outbox},
  {'XGROUP', 'CREATE', outbox, 'w', '0'}, {'XADD', outbox, '*', 'j', ''}, {'LLEN', wake}, {'HLEN', workers}, {'RPUSH', wake, '1'}, {'PEXPIRE', wake, '1'},
  {'ZRANGE', due, '0', '0'}, {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
-- tell begin: that a job of a flow has ended, and how, goes to the outbox, for whom it concerns.
local function tell(id, family, outcome, text)
  if call('EXISTS', outbox) == 0 then call('XGROUP', 'CREATE', outbox, 'w', '0', 'MKSTREAM') end
  call('XADD', outbox, '*', 'j', id, 'p', family, 'e', outcome, 't', text)
end
-- tell end
local function kept(options)
  local readable, terms = pcall(cmsgpack.unpack, options)
  return readable and type(terms) == 'table' and terms.k
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
local first_due, noted, failed = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2], 0, 0
for i = 1, #ARGV, args do
  local children, result = KEYS[9 + 2 * ARGV[i]], KEYS[10 + 2 * ARGV[i]]
  local parent, child, outcome, text = unpack(ARGV, i + 1, i + 4)
  local row = call('HGET', jobs, parent)
  local home, policy = string.match(call('HGET', children, child) or '', '^(%S+) (%a+) open $')
  if not row then
    call('DEL', children)
  elseif home then
    noted = noted + 1
    call('HSET', children, child, home .. ' ' .. policy .. ' ' .. outcome .. ' ' .. text)
    local open = call('HINCRBY', children, 'open', -1)
    local effect = places[outcome] and string.sub(policy, places[outcome], places[outcome]) or 'i'
    local ms, rest = string.match(row, '^w (%d+) (.*)$')
    if ms and effect == 'f' then
      local body = cmsgpack.unpack(call('HGET', bodies, parent))
      body[5] = string.sub('child ' .. child .. ' of ' .. home .. ' ' .. outcome .. ': ' .. text, 1, 1000)
      local when = string.format('%.0f', now)
      call('HSET', bodies, parent, cmsgpack.pack(body))
      call('ZREM', waiting, parent)
      call('ZADD', dead, when, parent)
      call('HSET', jobs, parent, 'd ' .. when .. ' ' .. rest)
      tell(parent, body[4], 'dead', body[5])
      local keep = kept(body[2])
      if keep then
        call('DEL', result)
        call('RPUSH', result, 'dead ' .. body[5])
        call('PEXPIRE', result, keep)
      end
      failed = failed + 1
      report(parent, 'waiting', 'dead', string.match(rest, '^%d+ (.*)$'), '', body[5])
    elseif ms and (open == 0 or effect == 'c') then
      local when = string.format('%.0f', math.max(now, ms))
      call('ZREM', waiting, parent)
      call('ZADD', due, when, parent)
      call('HSET', jobs, parent, 's ' .. when .. ' ' .. rest)
      report(parent, 'waiting', 'scheduled', string.match(rest, '^%d+ (.*)$'), '', '')
    end
  end
end
local next_due = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
if next_due ~= first_due and call('LLEN', wake) < math.floor(call('HLEN', workers) / 2) then call('RPUSH', wake, '1') end
publish()
return {noted, failed}

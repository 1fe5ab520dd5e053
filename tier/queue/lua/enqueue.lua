#!lua
-- Enqueues jobs: absent -> ready in their lanes, or scheduled; each call of a client once, however often it is sent. A job
-- that is there already stays as it is. Of a unique key there is one job: another one is answered with it, or replaces what it
-- carries; one that is active runs on, and the other after it.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] calls    STRING  'number outcomes' of the producer's last call
-- KEYS[2] jobs     HASH
-- KEYS[3] bodies   HASH
-- KEYS[4] due      ZSET
-- KEYS[5] ring     ZSET
-- KEYS[6] terms    HASH  of lanes, only looked at
-- KEYS[7] workers  HASH  only looked at
-- KEYS[8] wake     LIST
-- KEYS[9] unique   HASH
-- KEYS[10] queue   HASH  only looked at
-- KEYS[11] events  STREAM
-- KEYS[12..] logs  STREAM  of the lanes
-- ARGV[1] number   of the producer's call: the last + 1, or the last again
-- ARGV[2] ttl      ms that calls lives
-- ARGV[3] count    of lanes
-- ARGV[4] width    how many of the words that follow a job has here, 2 to 5, or 7: what is beyond is the first lane, or ''
-- ARGV[5..]        names of the lanes; for each job: id, message, number of its lane, options, '' | '+ms' from now | unix ms,
--   '' | 's', 'd' or 'p' (until it is started, done, for a period) and its unique key, '' | 'k', 'x' or 'r' (keep, refuse,
--   replace the one that is there) and the period in ms
-- Replies {'ok' | 'dup' (an earlier sending's) | 'unknown' (not the number after the last), outcomes: '<place>=<what>;' for
--   each job that was not enqueued: duplicate | kept, taken, replaced <job that is there> | elsewhere <lane of that one>, which
--   was not declared, or which a call before this one has emptied}
local calls, jobs, bodies, due, ring, terms, workers, wake, unique = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local queue, events = KEYS[10], KEYS[11]
local number, ttl, count, width = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local this = tonumber(number)
local first_lane, first_job, timed = 5, 5 + count, width > 4 -- timed: one may be scheduled, or have a unique key
local call = redis.call

local held = call('GET', calls) or '0 '
local last = tonumber(held) or tonumber(string.match(held, '^%d+')) -- mostly there are no outcomes behind it
if this == last then
  call('SET', calls, held, 'KEEPTTL') -- for who waits for replicas: they wait for what their connection wrote
  return {'dup', string.match(held, ' (.*)$')}
end
if this ~= last + 1 then return {'unknown', ''} end
local ids, n = {}, 0
for i = first_job, #ARGV, width do
  n = n + 1
  ids[n] = ARGV[i]
end
local there = call('HMGET', jobs, unpack(ids))
local new = {} -- of each lane: 0 when it is new
for i = 12, 11 + count do new[i] = call('XLEN', KEYS[i]) == 0 and call('EXISTS', KEYS[i]) == 0 end
local turns = call('ZMSCORE', ring, unpack(ARGV, first_lane, first_job - 1))
local deaf = math.floor(call('HLEN', workers) / 2) - call('LLEN', wake) -- workers for whom nobody has rung
local head -- of the ring, when one of the lanes is not in it
for i = 1, count do
  if not turns[i] then
    head = call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0'
    break
  end
end
local first_due, now
if timed then
  local t = call('TIME')
  now, first_due = t[1] * 1000 + math.floor(t[2] / 1000), call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
end
local paused = {} -- only of use to ring for a lane, or to bring it back
if head or deaf > 0 then
  for i, row in ipairs(call('HMGET', terms, unpack(ARGV, first_lane, first_job - 1))) do
    paused[i] = row and string.match(row, '^%S+ %d+ (%d+)') ~= '0'
  end
end

if this == 1 then -- asked once a producer: a right that is lacking must not show after the first write
  local log = KEYS[12]
  for _, cmd in ipairs({{'XGROUP', 'CREATE', log, 'w', '0'}, {'XADD', log, '*', 'j', ''}, {'HSET', jobs, 'f', ''}, {'ZADD', due, '0', 'm'}, {'ZRANGE', ring, '0', '0'}, {'HLEN', workers}, {'LLEN', wake},
    {'RPUSH', wake, '1'}, {'SET', calls, ''}, {'HGET', unique, 'f'}, {'HRANDFIELD', unique, '-2', 'WITHVALUES'}, {'HDEL', unique, 'f'}, {'HEXISTS', jobs, 'f'}, {'HGET', bodies, 'f'}, {'XPENDING', log, 'w'}, {'XDEL', log, '0-1'}, {'DEL', log},
    {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}}) do
    if not redis.acl_check_cmd(unpack(cmd)) then
      return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
    end
  end
end
-- Plain jobs for one lane that has jobs, and its turn, of which nobody is to be told: the same as below without what that needs beside entries and rows.
if width == 2 and not new[12] and not head and not call('HGET', queue, 'events') then
  local log, tail, rows, last_row, outcomes, seen = KEYS[12], ' ' .. ARGV[first_lane], {}, 0, {}, {}
  for k = 1, n do
    local id = ids[k]
    if there[k] or seen[id] then
      outcomes[#outcomes + 1] = (k - 1) .. '=duplicate;'
    else
      seen[id] = true
      rows[last_row + 1], rows[last_row + 2] = id, call('XADD', log, '*', 'j', id, 'm', ARGV[first_job + 2 * k - 1]) .. tail
      last_row = last_row + 2
    end
  end
  for i = 1, last_row, 4000 do call('HSET', jobs, unpack(rows, i, math.min(last_row, i + 3999))) end
  for _ = 1, paused[1] and 0 or math.min(last_row / 2, deaf) do call('RPUSH', wake, '1') end
  local answer = table.concat(outcomes)
  call('SET', calls, number .. ' ' .. answer, 'PX', ttl)
  return {'ok', answer}
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
local places, rows, last_row, outcomes, bells, filled = {}, {}, 0, {}, 0, {} -- places: of a job's row in rows
local function add(lane, name, id, message, options, key)
  local log = KEYS[11 + lane]
  if new[11 + lane] then
    call('XGROUP', 'CREATE', log, 'w', '0', 'MKSTREAM')
    new[11 + lane] = false
  end
  filled[lane] = name
  if not paused[lane] then bells = bells + 1 end
  local entry
  if key ~= '' then
    local more = options ~= '' and {'o', options, 'u', key} or {'u', key}
    entry = call('XADD', log, '*', 'j', id, 'm', message, unpack(more))
  elseif options ~= '' then
    entry = call('XADD', log, '*', 'j', id, 'm', message, 'o', options)
  else
    entry = call('XADD', log, '*', 'j', id, 'm', message)
  end
  return entry .. ' ' .. name
end
local schedule, holder, replace, hold -- only made where one is needed
if timed then
  local numbers = {}
  for i = 1, count do numbers[ARGV[first_lane + i - 1]] = i end
  function schedule(id, ms, message, options, key, name)
    local text = string.format('%.0f', ms)
    call('HSET', bodies, id, cmsgpack.pack({message, options, key, '', ''}))
    call('ZADD', due, text, id)
    if not first_due or ms < tonumber(first_due) then first_due, bells = text, bells + 1 end
    return 's ' .. text .. ' 0 ' .. name
  end
  -- Who has a unique key, or nil.
  function holder(key)
    local id, mode, till = string.match(call('HGET', unique, key) or '', '^(%S+) (%a) (%d+)$')
    if not id or mode == 'p' and tonumber(till) <= now then return nil end
    return (mode == 'p' or places[id] or call('HEXISTS', jobs, id) == 1) and id or nil
  end
  -- Replaces what a job carries that is not active, and when it is due. Returns what came of it, or nil when it is active, or done.
  function replace(id, ms, message, options, key)
    local row = places[id] and rows[places[id]] or call('HGET', jobs, id)
    local letter, name = string.match(row or '', '^([sr]) %d+ %d+ (.*)$')
    local written
    if name then
      written = schedule(id, ms or now, message, options, key, name)
      report(id, letter == 's' and 'scheduled' or 'retry', 'scheduled', name, '', 'replaced')
    else
      local entry, lane = string.match(row or '', '^(%d+%-%d+) (.*)$')
      if not entry then return nil end
      if not numbers[lane] then return 'elsewhere ' .. lane end
      local k = 11 + numbers[lane]
      local log = KEYS[k]
      if call('XPENDING', log, 'w', entry, entry, 1)[1] then return nil end
      if ms and ms > now then
        written = schedule(id, ms, message, options, key, lane)
      else
        written = add(numbers[lane], lane, id, message, options, key) -- before the lane may be empty
      end
      call('XDEL', log, entry)
      if call('XLEN', log) == 0 then
        call('DEL', log)
        new[k] = true
      end
      report(id, 'ready', ms and ms > now and 'scheduled' or 'ready', lane, '', 'replaced')
    end
    if not places[id] then
      last_row = last_row + 2
      places[id], rows[last_row - 1] = last_row, id
    end
    rows[places[id]] = written
    return 'replaced ' .. id
  end
  -- Gives a unique key to a job, until when policy says. For each one of a period two others are looked at, and go when theirs are over:
  -- so there are not many more of these than of all others.
  function hold(key, id, policy)
    local mode, till = string.sub(key, 1, 1), string.format('%.0f', now + (tonumber(string.sub(policy, 2)) or 0))
    local some = mode == 'p' and call('HRANDFIELD', unique, -2, 'WITHVALUES') or {}
    for i = 1, #some, 2 do
      local over = string.match(some[i + 1], '^%S+ p (%d+)$')
      if over and tonumber(over) <= now then call('HDEL', unique, some[i]) end
    end
    call('HSET', unique, string.sub(key, 2), id .. ' ' .. mode .. ' ' .. till)
  end
end
for k = 1, n do
  local i, id = first_job + (k - 1) * width, ids[k]
  local message, lane, options = ARGV[i + 1], width > 2 and ARGV[i + 2] + 0 or 1, width > 3 and ARGV[i + 3] or ''
  local ms, key, policy, what = nil, '', '', nil
  if timed then
    local at = ARGV[i + 4]
    if at ~= '' then ms = string.sub(at, 1, 1) == '+' and now + string.sub(at, 2) or at + 0 end
    if width > 5 then key, policy = ARGV[i + 5], ARGV[i + 6] end
  end
  if there[k] or places[id] then
    what = 'duplicate'
  elseif key ~= '' then
    local other = holder(string.sub(key, 2))
    local how = string.sub(policy, 1, 1)
    if other then
      if how == 'k' then what = 'kept ' .. other end
      if how == 'x' then what = 'taken ' .. other end
      if how == 'r' then what = replace(other, ms, message, options, key) end
      if what == 'replaced ' .. other then hold(key, other, policy) end
    end
  end
  if what then
    outcomes[#outcomes + 1] = (k - 1) .. '=' .. what .. ';'
  else
    local name, row = ARGV[first_lane + lane - 1], nil
    if ms and ms > now then
      row = schedule(id, ms, message, options, key, name)
      report(id, 'absent', 'scheduled', name, '', '')
    else
      row = add(lane, name, id, message, options, key)
      if bound then report(id, 'absent', 'ready', name, '', '') end
    end
    last_row = last_row + 2
    places[id], rows[last_row - 1], rows[last_row] = last_row, id, row
    if key ~= '' then hold(key, id, policy) end
  end
end
for i = 1, last_row, 4000 do call('HSET', jobs, unpack(rows, i, math.min(last_row, i + 3999))) end
local back = {} -- lanes that are not in the ring
for lane, name in pairs(filled) do
  if not paused[lane] and not turns[lane] then
    back[#back + 1] = head
    back[#back + 1] = name
  end
end
for i = 1, #back, 4000 do call('ZADD', ring, unpack(back, i, math.min(#back, i + 3999))) end
for _ = 1, math.min(bells, deaf) do call('RPUSH', wake, '1') end
publish()
local answer = table.concat(outcomes)
call('SET', calls, number .. ' ' .. answer, 'PX', ttl)
return {'ok', answer}

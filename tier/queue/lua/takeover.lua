#!lua flags=allow-oom
-- Takes over jobs whose lease has ended: active, idle past the lease -> active with the caller, one more delivery. Each other
-- member that loses a job gets another number, which fences it. Lanes are looked at that are due for it, of those declared,
-- page by page; a lane that is through says when to look again, and loses the consumers that have left. A suspect, a job that
-- a second worker let go of, may be what ends them: it is taken alone.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] workers  HASH
-- KEYS[2] queue    HASH  only looked at
-- KEYS[3] ring     ZSET
-- KEYS[4] terms    HASH  of lanes, only looked at
-- KEYS[5] leased   ZSET
-- KEYS[6] events   STREAM
-- KEYS[7] active   HASH  lane -> how many of its jobs are, where the queue has a ceiling
-- KEYS[8] wake     LIST
-- KEYS[9..] logs   STREAM  of lanes
-- ARGV[1] member   name
-- ARGV[2] number   of the member
-- ARGV[3] lease    ms
-- ARGV[4] want     jobs to take at most
-- ARGV[5] suspects that may be among them
-- ARGV[6] page     active jobs to look at
-- ARGV[7] lanes    due ones to answer at most
-- ARGV[8..]        for each lane its name, and '-' or the '(' form of the last entry looked at
-- Replies {1 | 0 when the queue is paused | -1 when fenced, {{number of the lane, {entry, deliveries, ...}, entries that exist}, ...},
--   number of the lane that is not through or 0, the last entry looked at in it, lanes that are due, ms until the first lane is or -1, suspects left}
local workers, queue, ring, terms, leased, events, active, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local member, number, lease, want, suspects = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local page, lanes = tonumber(ARGV[6]), ARGV[7]
local last_log = 8 + (#ARGV - 7) / 2
local call = redis.call

if call('HGET', workers, member) ~= number then return {-1, {}, 0, '', {}, -1, 0} end
if call('HGET', queue, 'paused') then return {0, {}, 0, '', {}, -1, 0} end
for i = 9, last_log do
  if call('XLEN', KEYS[i]) > 0 then call('XPENDING', KEYS[i], 'w') end -- a group that is lacking must not show halfway
end
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'XCLAIM', ring, 'w', member, '0', '0-1'}, {'ZREM', leased, 'm'}, {'ZADD', leased, '0', 'm'}, {'XINFO', 'CONSUMERS', ring, 'w'}, {'HEXISTS', workers, 'f'},
  {'HINCRBY', workers, 'f', '1'}, {'XGROUP', 'DELCONSUMER', ring, 'w', 'c'}, {'ZRANGE', leased, '0', '0'}, {'ZRANGEBYSCORE', leased, '0', '0'}, {'XPENDING', ring, 'w'},
  {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}, {'HSET', active, 'f', ''}, {'HDEL', active, 'f'}, {'HGETALL', active}, {'LLEN', wake}, {'HLEN', workers}, {'RPUSH', wake, '1'}}) do
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
-- Looks at a page of a lane. Returns what is taken; where it stopped, or nil at the end; in how many ms to look again.
local losers, suspected = {}, 0
local function look(log, from)
  local taken, idlest, passed, at = {}, 0, 0, from
  for _, row in ipairs(call('XPENDING', log, 'w', from, '+', page)) do
    if want == 0 then return taken, at end
    page, at = page - 1, '(' .. row[1]
    local suspect = row[4] >= 2
    if row[3] >= lease and suspect and suspects == 0 then
      passed = passed + 1
    elseif row[3] >= lease then
      if suspect then suspects = suspects - 1 end
      want = want - 1
      taken[#taken + 1] = row[1]
      taken[#taken + 1] = row[4] + 1
      if row[2] ~= member then losers[row[2]] = true end
    else
      idlest = math.max(idlest, row[3])
    end
  end
  if page == 0 then return taken, at end
  suspected = suspected + passed
  local again = from == '-' and lease - idlest or math.min(lease - idlest, 2000)
  return taken, nil, passed > 0 and 250 or math.max(1, again)
end
local out, stopped, last, counts = {}, 0, '', {}
for i = 9, last_log do
  local log = KEYS[i]
  local name, from = ARGV[8 + 2 * (i - 9)], ARGV[9 + 2 * (i - 9)]
  local score = call('ZSCORE', leased, name)
  if stopped == 0 and score and (from ~= '-' or tonumber(score) <= now) then
    if call('XLEN', log) == 0 then
      call('ZREM', leased, name)
      counts[name] = 0
    else
      local taken, at, again = look(log, from)
      if #taken > 0 then
        local ids = {}
        for k = 1, #taken, 2 do ids[#ids + 1] = taken[k] end
        local claimed = call('XCLAIM', log, 'w', member, 0, unpack(ids))
        out[#out + 1] = {i - 8, taken, claimed}
        for _, e in ipairs(claimed) do
          if e[2][1] == 'j' then report(e[2][2], 'active', 'active', name, member, '') end
        end
      end
      if at then
        stopped, last = i - 8, at
      else
        local pending = call('XPENDING', log, 'w')[1]
        counts[name] = pending
        if pending == 0 then
          call('ZREM', leased, name)
        else
          call('ZADD', leased, string.format('%.0f', now + again), name)
        end
        local ceiling, paused = string.match(call('HGET', terms, name) or '1 0 0', '^%S+ (%d+) (%d+)')
        if paused == '0' and call('XLEN', log) > pending and (ceiling == '0' or pending < tonumber(ceiling)) then
          call('ZADD', ring, 'NX', call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0', name)
        end
        for _, c in ipairs(call('XINFO', 'CONSUMERS', log, 'w')) do
          if c[4] == 0 and call('HEXISTS', workers, c[2]) == 0 then call('XGROUP', 'DELCONSUMER', log, 'w', c[2]) end
        end
      end
    end
  end
end
-- Of a queue with a ceiling the lanes that were looked through are counted anew, and the sum of all is, since something outside of
-- the queue may have upset them. Returns how much more room there is than before.
local function recount()
  local sum, ceiling = string.match(call('HGET', active, '') or '', '^(%d+) (%d+)$')
  if not sum then return 0 end
  for name, n in pairs(counts) do
    if n > 0 then call('HSET', active, name, n) else call('HDEL', active, name) end
  end
  local rows, total = call('HGETALL', active), 0
  for i = 1, #rows, 2 do total = total + (rows[i] ~= '' and tonumber(rows[i + 1]) or 0) end
  call('HSET', active, '', string.format('%.0f %s', total, ceiling))
  return math.min(sum - total, ceiling - total)
end
-- wake begin: for each job that there is room for again a worker wakes, if a lane has its turn.
local function awake(room)
  if room > 0 and call('ZRANGE', ring, 0, 0)[1] then
    for _ = 1, math.min(room, math.floor(call('HLEN', workers) / 2) - call('LLEN', wake)) do call('RPUSH', wake, '1') end
  end
end
-- wake end
awake(next(counts) and recount() or 0)
for loser in pairs(losers) do
  if call('HEXISTS', workers, loser) == 1 then call('HINCRBY', workers, loser, 1) end
end
publish()
local first = call('ZRANGE', leased, 0, 0, 'WITHSCORES')[2]
return {1, out, stopped, last, call('ZRANGEBYSCORE', leased, '-inf', string.format('%.0f', now), 'LIMIT', 0, lanes), first and math.max(0, first - now) or -1, suspected}

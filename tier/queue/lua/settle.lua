#!lua flags=allow-oom
-- Settles jobs that have no result: active -> done. A job that is not where the caller has it is left alone: it was settled by
-- an earlier sending, or is another's. An empty lane is deleted. A transaction that has settled jobs calls it for no jobs, to see to the lanes.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] workers  HASH  only looked at
-- KEYS[2] jobs     HASH
-- KEYS[3] ring     ZSET
-- KEYS[4] terms    HASH  of lanes, only looked at
-- KEYS[5] leased   ZSET
-- KEYS[6] wake     LIST
-- KEYS[7] told     HASH  active job -> why it is cancelled
-- KEYS[8] notes    HASH
-- KEYS[9] queue    HASH  only looked at
-- KEYS[10] events  STREAM
-- KEYS[11] active  HASH  lane -> how many of its jobs are, where the queue has a ceiling
-- KEYS[12..] logs  STREAM  of lanes
-- ARGV[1] member   name
-- ARGV[2] number   of the member
-- ARGV[3] ask      1 in the first call of the member: whether it has the rights; else ''
-- ARGV[4..]        for each lane its name, how many jobs, their entries, their ids, how many ms the member had each, -1 when it does not know
-- Replies how many were settled, or -1 when fenced
local workers, jobs, ring, terms, leased, wake, told, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local queue, events, active = KEYS[9], KEYS[10], KEYS[11]
local member, number, ask = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

if call('HGET', workers, member) ~= number then return -1 end
for i = 12, #KEYS do call('XLEN', KEYS[i]) end
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
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs(ask ~= '' and {{'XDEL', ring, '0-1'}, {'HDEL', jobs, 'f'}, {'DEL', ring}, {'ZREM', leased, 'm'}, {'XPENDING', ring, 'w'}, {'ZADD', ring, '0', 'm'},
  {'ZRANGE', ring, '0', '0'}, {'LLEN', wake}, {'HLEN', workers}, {'RPUSH', wake, '1'},
  {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}, {'EXISTS', active}, {'HSET', active, 'f', ''}} or {}) do
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
local settled, at, i, capped, pending = 0, 4, 12, call('HEXISTS', active, '') == 1, {}
local warned, noted = call('EXISTS', told) == 1, call('EXISTS', notes) == 1
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
while at <= #ARGV do
  local log = KEYS[i]
  local name, n = ARGV[at], tonumber(ARGV[at + 1])
  local rows = n > 0 and call('HMGET', jobs, unpack(ARGV, at + 2 + n, at + 1 + 2 * n))
  local entries, ids, had = {}, {}, bound and string.gmatch(ARGV[at + 2 + 2 * n], '%S+')
  for k = 1, n do
    local ms = had and tonumber(had())
    if rows[k] == ARGV[at + 1 + k] .. ' ' .. name then
      entries[#entries + 1] = ARGV[at + 1 + k]
      ids[#ids + 1] = ARGV[at + 1 + n + k]
      if bound then report(ids[#ids], 'active', 'done', name, member, '', ms) end
    end
  end
  if #ids > 0 then
    settled = settled + call('XACK', log, 'w', unpack(entries))
    call('XDEL', log, unpack(entries))
    call('HDEL', jobs, unpack(ids))
    if warned then call('HDEL', told, unpack(ids)) end
    if noted then call('HDEL', notes, unpack(ids)) end
  end
  vacate(log, name)
  if capped then pending[name] = call('EXISTS', log) == 1 and call('XPENDING', log, 'w')[1] or 0 end
  at, i = at + 3 + 2 * n, i + 1
end
-- wake begin: for each job that there is room for again a worker wakes, if a lane has its turn.
local function awake(room)
  if room > 0 and call('ZRANGE', ring, 0, 0)[1] then
    for _ = 1, math.min(room, math.floor(call('HLEN', workers) / 2) - call('LLEN', wake)) do call('RPUSH', wake, '1') end
  end
end
-- wake end
awake(capped and count(pending) or 0)
publish()
return settled

#!lua flags=allow-oom
-- Claims jobs: ready -> active, lane by lane in the order of the ring: to each as much of what is wanted as its weight is of
-- all of them, then what is left to those that have more. A job whose unique key it has until it is started
-- gives that up. A turn moves a lane back by one for each job, by less when it is
-- heavier. An empty, paused, full or limited lane that has its turn leaves the ring; whoever
-- changes that puts it back, and a claim what time has. Nothing is claimed beyond the ceiling of the queue. Only lanes
-- that were declared are served; those at the head of the ring are answered, to be declared next time.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] workers  HASH  only looked at
-- KEYS[2] queue    HASH  only looked at
-- KEYS[3] ring     ZSET
-- KEYS[4] terms    HASH  of lanes, only looked at
-- KEYS[5] leased   ZSET
-- KEYS[6] due      ZSET  only looked at
-- KEYS[7] unique   HASH
-- KEYS[8] limited  ZSET
-- KEYS[9] buckets  HASH
-- KEYS[10] events  STREAM
-- KEYS[11] active  HASH  lane -> how many of its jobs are, where the queue has a ceiling
-- KEYS[12..] logs  STREAM  of lanes
-- ARGV[1] member   name
-- ARGV[2] number   of the member
-- ARGV[3] lease    ms
-- ARGV[4] want     jobs at most
-- ARGV[5] heads    lanes of the ring to look at, and to answer; 0: only those that are declared, and none
-- ARGV[6..]        names of the lanes
-- Replies {1 | 0 when the queue is paused | -1 when fenced, {{number of the lane, its turn, its weight, of each job: entry, id, message,
--   nil | all fields of the entry, where it has others, with id and message ''}, ...},
--   lanes at the head of the ring, ms until the first job is due, or a limit allows another, or -1, ms until the first lane is to be looked at or -1,
--   the server's unix ms}
local workers, queue, ring, terms, leased, due, unique = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local limited, buckets, events, active = KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local member, number, lease, want, heads = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local call = redis.call

local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if call('HGET', workers, member) ~= number then return {-1, {}, {}, -1, -1, now} end
if call('HGET', queue, 'paused') then return {0, {}, {}, -1, -1, now} end
local declared = {}
for i = 6, #ARGV do declared[ARGV[i]] = i + 6 end
local may = redis.acl_check_cmd -- a right that is lacking must not show after the first write
local lacks = not may('ZADD', leased, '0', 'm') and 'zadd' or not may('ZREM', ring, 'm') and 'zrem' or not may('HDEL', unique, 'f') and 'hdel'
  or not may('HSET', buckets, 'f', '') and 'hset' or not may('XADD', events, '*', 'm', '') and 'xadd' or not may('XSETID', events, '0-1') and 'xsetid'
if lacks then return redis.error_reply("NOPERM the user has no permissions to run the '" .. lacks .. "' command") end
-- Buckets of tokens: each job takes one; they fill at a rate, up to as many as the rate allows in its time.
local function tokens(name, rate, per)
  local had, at = string.match(call('HGET', buckets, name) or '', '^(%S+) (%d+)$')
  return had and math.min(rate, had + math.max(0, now - at) * rate / per) or rate
end
local function keep(name, left) call('HSET', buckets, name, string.format('%.17g %.0f', left, now)) end
local sum, most = string.match(call('HGET', active, '') or '', '^(%d+) (%d+)$')
if sum then want = math.max(0, math.min(want, most - sum)) end
local rate, per = string.match(call('HGET', queue, 'rate') or '', '^(%d+) (%d+)$')
local all, wait = rate and tokens('', tonumber(rate), tonumber(per)), -1
if all and all < want then
  want = math.floor(all)
  if want == 0 then wait = math.ceil((1 - all) * per / rate) end
end
local asked_for = want
for _, name in ipairs(call('ZRANGEBYSCORE', limited, '-inf', string.format('%.0f', now))) do -- whose time has come
  call('ZADD', ring, 'NX', call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0', name)
  call('ZREM', limited, name)
end

local lanes, total, turns, gone, holds = {}, 0, {}, {}, {}
local order, names = {}, {}
if heads > 0 then
  order = call('ZRANGE', ring, 0, heads - 1, 'WITHSCORES')
else
  local some = {}
  for i = 6, #ARGV do
    local turn = call('ZSCORE', ring, ARGV[i])
    if turn then some[#some + 1] = {ARGV[i], turn} end
  end
  table.sort(some, function(a, b) return a[2] + 0 < b[2] + 0 end)
  for _, one in ipairs(some) do
    order[#order + 1] = one[1]
    order[#order + 1] = one[2]
  end
end
for k = 1, #order, 2 do names[#names + 1] = order[k] end
local rows = names[1] and call('HMGET', terms, unpack(names)) or {}
for k = 1, #order, 2 do
  local name, i = order[k], declared[order[k]]
  if i then
    local weight, ceiling, paused, r, p = string.match(rows[(k + 1) / 2] or '1 0 0', '^(%S+) (%d+) (%d+) ?(%d*) ?(%d*)$')
    local lane = {i = i, name = name, turn = order[k + 1], weight = tonumber(weight), text = weight, room = want, rate = tonumber(r), per = tonumber(p), jobs = {}, n = 0}
    local log = KEYS[i]
    if paused ~= '0' or call('XLEN', log) == 0 then
      lane.room = 0
    else
      lane.active = call('XPENDING', log, 'w')[1] -- a group that is lacking must not show after the first claim
      if ceiling ~= '0' then lane.room = math.min(want, ceiling - lane.active) end
    end
    if lane.rate and lane.room > 0 then
      lane.tokens = tokens(name, lane.rate, lane.per)
      lane.room = math.min(lane.room, math.floor(lane.tokens))
    end
    if lane.room > 0 or want == 0 then
      lanes[#lanes + 1] = lane
      total = total + lane.weight
    else
      gone[#gone + 1] = name
      if lane.tokens then holds[#holds + 1] = lane end
    end
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
local left, looks = want, {}
-- Frees the unique key of a job that has it until it is started.
local function free(fields)
  for k = 5, #fields, 2 do
    local key = fields[k] == 'u' and string.match(fields[k + 1], '^s(.*)$')
    if key and string.match(call('HGET', unique, key) or '', '^%S+') == fields[2] then call('HDEL', unique, key) end
  end
end
local function take(lane, n)
  local log, list, at = KEYS[lane.i], lane.jobs, 4 * lane.n
  local got = call('XREADGROUP', 'GROUP', 'w', member, 'COUNT', n, 'STREAMS', log, '>')
  local entries = got and got[1][2] or {}
  for k = 1, #entries do
    local entry, fields = entries[k][1], entries[k][2]
    if fields[1] == 'j' and fields[3] == 'm' and not fields[5] then -- a list in the list costs the server half as much again
      list[at + 1], list[at + 2], list[at + 3], list[at + 4] = entry, fields[2], fields[4], false
    else
      list[at + 1], list[at + 2], list[at + 3], list[at + 4] = entry, '', '', fields
      free(fields)
    end
    at = at + 4
    if bound and fields[1] == 'j' then report(fields[2], 'ready', 'active', lane.name, member, '', now - string.match(entry, '^%d+')) end
  end
  lane.n = lane.n + #entries
  left, lane.room = left - #entries, #entries == n and lane.room - n or 0
end
for _, lane in ipairs(lanes) do
  if left > 0 then
    take(lane, math.min(left, lane.room, math.max(1, math.floor(want * lane.weight / total))))
    lane.asked = true
  end
end
for _, lane in ipairs(lanes) do
  if left > 0 and lane.room > 0 then take(lane, math.min(left, lane.room)) end
end
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
local out, pending = {}, {}
for _, lane in ipairs(lanes) do
  local n = lane.n
  if n > 0 then
    turns[#turns + 1] = string.format('%.17g', lane.turn + n / lane.weight)
    turns[#turns + 1] = lane.name
    looks[#looks + 1] = string.format('%.0f', now + lease)
    looks[#looks + 1] = lane.name
    if lane.tokens then keep(lane.name, lane.tokens - n) end
    pending[lane.name] = lane.active + n
    out[#out + 1] = {lane.i - 11, lane.turn, lane.text, lane.jobs}
  elseif lane.asked then
    gone[#gone + 1] = lane.name
  end
end
if #turns > 0 then
  call('ZADD', ring, unpack(turns))
  call('ZADD', leased, 'NX', unpack(looks))
  count(pending)
end
if #gone > 0 then call('ZREM', ring, unpack(gone)) end
for _, lane in ipairs(holds) do
  call('ZADD', limited, string.format('%.0f', now + math.ceil((1 - lane.tokens) * lane.per / lane.rate)), lane.name)
end
if all and left < asked_for then keep('', all - (asked_for - left)) end
publish()
local first_due = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
local first_held = call('ZRANGE', limited, 0, 0, 'WITHSCORES')[2]
if first_held and (wait < 0 or first_held - now < wait) then wait = math.max(1, first_held - now) end
if first_due and (wait < 0 or first_due - now < wait) then wait = math.max(0, first_due - now) end
local first_look = call('ZRANGE', leased, 0, 0, 'WITHSCORES')[2]
return {1, out, heads > 0 and call('ZRANGE', ring, 0, heads - 1) or {}, wait, first_look and math.max(0, first_look - now) or -1, now}

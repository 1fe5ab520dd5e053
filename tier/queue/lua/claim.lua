#!lua flags=allow-oom
-- Claims jobs: ready -> active, lane by lane in the order of the ring: to each as much of what is wanted as its weight is of
-- all of them, then what is left to those that have more. A job whose unique key it has until it is started
-- gives that up. A turn moves a lane back by one for each job, by less when it is
-- heavier. An empty, paused, full or limited lane that has its turn leaves the ring; whoever
-- changes that puts it back, and a claim what time has. Only lanes
-- that were declared are served; those at the head of the ring are answered, to be declared next time.
-- KEYS[1] workers  HASH  only looked at
-- KEYS[2] queue    HASH  only looked at
-- KEYS[3] ring     ZSET
-- KEYS[4] terms    HASH  of lanes, only looked at
-- KEYS[5] leased   ZSET
-- KEYS[6] due      ZSET  only looked at
-- KEYS[7] unique   HASH
-- KEYS[8] limited  ZSET
-- KEYS[9] buckets  HASH
-- KEYS[10..] logs  STREAM  of lanes
-- ARGV[1] member   name
-- ARGV[2] number   of the member
-- ARGV[3] lease    ms
-- ARGV[4] want     jobs at most
-- ARGV[5] heads    lanes of the ring to look at, and to answer
-- ARGV[6..]        names of the lanes
-- Replies {1 | 0 when the queue is paused | -1 when fenced, {{number of the lane, its turn, its weight, entries}, ...},
--   lanes at the head of the ring, ms until the first job is due, or a limit allows another, or -1, ms until the first lane is to be looked at or -1}
local workers, queue, ring, terms, leased, due, unique = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local limited, buckets = KEYS[8], KEYS[9]
local member, number, lease, want, heads = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local call = redis.call

if call('HGET', workers, member) ~= number then return {-1, {}, {}, -1, -1} end
if call('HGET', queue, 'paused') then return {0, {}, {}, -1, -1} end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local declared = {}
for i = 10, #KEYS do declared[ARGV[i - 4]] = i end
for _, cmd in ipairs({{'ZADD', leased, '0', 'm'}, {'ZREM', ring, 'm'}, {'HDEL', unique, 'f'}, {'HSET', buckets, 'f', ''}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
-- Buckets of tokens: each job takes one; they fill at a rate, up to as many as the rate allows in its time.
local function tokens(name, rate, per)
  local had, at = string.match(call('HGET', buckets, name) or '', '^(%S+) (%d+)$')
  return had and math.min(rate, had + math.max(0, now - at) * rate / per) or rate
end
local function keep(name, left) call('HSET', buckets, name, string.format('%.17g %.0f', left, now)) end
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
local order = call('ZRANGE', ring, 0, heads - 1, 'WITHSCORES')
for k = 1, #order, 2 do
  local name, i = order[k], declared[order[k]]
  if i then
    local weight, ceiling, paused, r, p = string.match(call('HGET', terms, name) or '1 0 0', '^(%S+) (%d+) (%d+) ?(%d*) ?(%d*)$')
    local lane = {i = i, name = name, turn = order[k + 1], weight = tonumber(weight), text = weight, room = want, rate = tonumber(r), per = tonumber(p), entries = {}}
    local log = KEYS[i]
    if paused ~= '0' or call('XLEN', log) == 0 then
      lane.room = 0
    else
      local active = call('XPENDING', log, 'w')[1] -- a group that is lacking must not show after the first claim
      if ceiling ~= '0' then lane.room = math.min(want, ceiling - active) end
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
local left, looks = want, {}
-- Frees the unique key of a job that has it until it is started.
local function free(fields)
  for k = 5, #fields, 2 do
    local key = fields[k] == 'u' and string.match(fields[k + 1], '^s(.*)$')
    if key and string.match(call('HGET', unique, key) or '', '^%S+') == fields[2] then call('HDEL', unique, key) end
  end
end
local function take(lane, n)
  local log = KEYS[lane.i]
  local got = call('XREADGROUP', 'GROUP', 'w', member, 'COUNT', n, 'STREAMS', log, '>')
  local entries = got and got[1][2] or {}
  for _, e in ipairs(entries) do
    lane.entries[#lane.entries + 1] = e
    if #e[2] > 4 then free(e[2]) end
  end
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
local out = {}
for _, lane in ipairs(lanes) do
  local n = #lane.entries
  if n > 0 then
    turns[#turns + 1] = string.format('%.17g', lane.turn + n / lane.weight)
    turns[#turns + 1] = lane.name
    looks[#looks + 1] = string.format('%.0f', now + lease)
    looks[#looks + 1] = lane.name
    if lane.tokens then keep(lane.name, lane.tokens - n) end
    out[#out + 1] = {lane.i - 9, lane.turn, lane.text, lane.entries}
  elseif lane.asked then
    gone[#gone + 1] = lane.name
  end
end
if #turns > 0 then
  call('ZADD', ring, unpack(turns))
  call('ZADD', leased, 'NX', unpack(looks))
end
if #gone > 0 then call('ZREM', ring, unpack(gone)) end
for _, lane in ipairs(holds) do
  call('ZADD', limited, string.format('%.0f', now + math.ceil((1 - lane.tokens) * lane.per / lane.rate)), lane.name)
end
if all and left < asked_for then keep('', all - (asked_for - left)) end
local first_due = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
local first_held = call('ZRANGE', limited, 0, 0, 'WITHSCORES')[2]
if first_held and (wait < 0 or first_held - now < wait) then wait = math.max(1, first_held - now) end
if first_due and (wait < 0 or first_due - now < wait) then wait = math.max(0, first_due - now) end
local first_look = call('ZRANGE', leased, 0, 0, 'WITHSCORES')[2]
return {1, out, call('ZRANGE', ring, 0, heads - 1), wait, first_look and math.max(0, first_look - now) or -1}

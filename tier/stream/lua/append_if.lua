#!lua
-- Appends messages when what the caller expects holds, and notes them in the indexes of their keys: producer at last ->
-- producer at number, each key at its version -> at its version and as many as it has messages. Every append to a keyed
-- stream is one of these. One entry each, ids as in append.lua. What does not hold is noted under the number, without any
-- other effect, so that a repetition is answered alike.
-- KEYS[1] log       STREAM
-- KEYS[2] producer  STRING  as append.lua has it; 'number !<index>:<what is there> 0 0;' of a call that was refused
-- KEYS[3] scope     HASH
-- KEYS[4..] indexes ZSET    one of each key: member the address of a message, score its version
-- ARGV[1] number    of this call: last + 1, or the source's position when named
-- ARGV[2] ttl       ms that the producer key lives, 0 for a named producer, whose numbers may leave gaps
-- ARGV[3] node      that the caller derives ids with
-- ARGV[4] field     of the stream in the scope
-- ARGV[5] declared  value of the field that the caller has seen
-- ARGV[6] above     the highest address that this writer was given
-- ARGV[7] follows   as append.lua has it
-- ARGV[8] keep      as append.lua has it
-- ARGV[9] tail      address of the log's last entry that is expected, 0-0 of an empty log; '' for any
-- ARGV[10..] rest   for each index the version that is expected, '' for any; then of each message which index is its
--                   key's, from 1, 0 when the stream is not keyed; and the message, encoded
-- Replies {code, first id, count, size}: as append.lua, or {conflict, what is there, index or 0 for the tail, 0}
local log, producer, scope = KEYS[1], KEYS[2], KEYS[3]
local number, ttl = ARGV[1], ARGV[2]
local this = tonumber(number)
local node, field, declared, above, follows, keep, tail = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local wants, indexes = 9, #KEYS - 3 -- the want of index i stands at wants + i
local first_message = wants + indexes + 1
local call = redis.call

local row = call('HMGET', scope, 'node', field)
if row[1] ~= node or row[2] ~= declared then return {row[2] and string.sub(row[2], 1, 1) == '-' and 'removed' or 'undeclared', '', 0, 0} end

local held = call('GET', producer) or ''
local last = string.match(held, '^%d+')
if last then last = last + 0 end
for n, id, count, size in string.gmatch(last and this <= last and held or '', '(%d+) (%S+) (%d+) (%d+);') do
  if tonumber(n) == this then
    call('SET', producer, held, 'KEEPTTL') -- for who waits for replicas: they wait for what their connection wrote
    local index, there = string.match(id, '^!(%d+):(%S+)$')
    if index then return {'conflict', there, tonumber(index), 0} end
    return {'dup', id, tonumber(count), tonumber(size)}
  end
end
if ttl == '0' then
  if last and this < last then return {'past', '', 0, 0} end
  if follows ~= '' and tonumber(follows) ~= (last or 0) then return {'moved', '', 0, 0} end
elseif not last then
  if this ~= 1 then return {'unknown', '', 0, 0} end
elseif this ~= last + 1 then
  return {'order', '', 0, 0}
end
local function record(receipt)
  local kept = ''
  if keep ~= '0' then kept = string.match(held, '^' .. string.rep('[^;]*;', keep)) or held end
  local receipts = number .. ' ' .. receipt .. ';' .. kept
  if ttl == '0' then
    call('SET', producer, receipts)
  else
    call('SET', producer, receipts, 'PX', ttl)
  end
end
local function conflict(index, there)
  record(string.format('!%d:%s 0 0', index, there))
  return {'conflict', there, index, 0}
end
if tail ~= '' then
  local newest = call('XREVRANGE', log, '+', '-', 'COUNT', 1)
  local there = newest[1] and newest[1][1] or '0-0'
  if there ~= tail then return conflict(0, there) end
end
local versions = {} -- by index
for i = 4, #KEYS do
  local newest = call('ZRANGE', KEYS[i], -1, -1, 'WITHSCORES')
  versions[i - 3] = tonumber(newest[2] or 0)
end
for i, version in ipairs(versions) do
  local want = ARGV[wants + i]
  if want ~= '' and tonumber(want) ~= version then return conflict(i, string.format('%.0f', version)) end
end
if not last then -- asked once a producer: a right that is lacking must not show after the first write
  local needs = {set = {'SET', producer, ''}, hset = {'HSET', scope, field, ''}, xadd = {'XADD', log, '*', 'm', ''}, xsetid = {'XSETID', log, '0-1'},
    xdel = {'XDEL', log, '0-1'}, ['xinfo|stream'] = {'XINFO', 'STREAM', log}, xlen = {'XLEN', log}, time = {'TIME'}}
  if indexes > 0 then needs.zadd = {'ZADD', KEYS[4], '0', '0-1'} end
  for name, cmd in pairs(needs) do
    if not redis.acl_check_cmd(unpack(cmd)) then
      return redis.error_reply("NOPERM the user has no permissions to run the '" .. name .. "' command")
    end
  end
end

-- mint begin: an entry of one message with an id that the server mints. Each script that appends has the same lines.
local function mark(field) -- field is stream:<name>: 'top:<name>' is the last id that was ahead of the clock
  return 'top' .. string.sub(field, 7)
end
local function parse(id)
  local ms, seq = string.match(id, '^(%d+)%-(%d+)$')
  return ms + 0, seq + 0 -- which takes the server half of what tonumber does
end
local function counters(log)
  local info, added, deleted = redis.call('XINFO', 'STREAM', log), 0, '0-0'
  for i = 1, #info, 2 do
    if info[i] == 'entries-added' then added = info[i + 1] end
    if info[i] == 'max-deleted-entry-id' then deleted = info[i + 1] end
  end
  return added, deleted
end
-- log: key; field: of the stream in the scope; above: an id that the new one must pass; now: ms with a fraction; message: encoded.
-- Returns id, ms, seq; or false and 'range' or the server's refusal, with nothing written. The caller seals the last one.
local function mint(log, scope, field, above, now, message)
  local last_ms = 3903090455551
  local id = redis.pcall('XADD', log, '*', 'm', message)
  if id.err then -- because no id is above the top?
    local info = redis.pcall('XINFO', 'STREAM', log)
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' and parse(info[i + 1]) >= last_ms then return false, 'range' end
    end
    return false, id
  end
  local ms, seq = parse(id)
  local begin, begin_seq = ms, 0 -- of the id, if it is another one
  local given_ms, given_seq = parse(above)
  if ms < given_ms or (ms == given_ms and seq <= given_seq) then
    begin = given_ms + 1 -- the log lost what it gave this writer
  elseif seq > 4095 then
    begin = ms + 1 -- a foreign writer ran on in this millisecond
  end
  if redis.call('XLEN', log) == 1 and counters(log) == 1 then -- a new log: above the clock, and above all that was ahead of it
    local past, soon = parse(redis.call('HMGET', scope, mark(field))[1] or '0-0') + 1, math.floor(now) + 2
    if math.max(begin, past) < soon then begin, begin_seq = soon, math.floor(now % 1 * 4000) end
    begin = math.max(begin, past)
  end
  local legal = ms >= 1704067200000 and begin + 2 <= last_ms
  if begin > ms or not legal then -- as if it had not been added: readers count what was
    local added, deleted = counters(log)
    redis.call('XDEL', log, id)
    redis.call('XSETID', log, id, 'ENTRIESADDED', added - 1, 'MAXDELETEDID', deleted)
    if not legal then return false, 'range' end
    ms, seq = begin, begin_seq
    id = redis.call('XADD', log, string.format('%.0f-%d', ms, seq), 'm', message)
  end
  return id, ms, seq
end
-- After the last id of a call: one ahead of the clock is marked in the scope; after sequence 4095 the next millisecond begins.
local function seal(log, scope, field, now, ms, seq)
  if ms > now then redis.call('HSET', scope, mark(field), string.format('%.0f-%d', ms, seq)) end
  if seq == 4095 then redis.call('XSETID', log, string.format('%.0f-0', ms + 1)) end
end
-- mint end
local t = call('TIME')
local now = t[1] * 1000 + t[2] / 1000
local first, ms, seq = mint(log, scope, field, above, now, ARGV[first_message + 1])
if not first then
  if ms == 'range' then return {'range', '', 0, 0} end
  return ms
end
local function note(i, address) -- the message whose index is named at ARGV[i]
  local index = tonumber(ARGV[i])
  if index == 0 then return end
  versions[index] = versions[index] + 1
  local key = KEYS[index + 3]
  call('ZADD', key, string.format('%.0f', versions[index]), address)
end
note(first_message, first)
for i = first_message + 2, #ARGV, 2 do
  if seq == 4095 then ms, seq = ms + 1, -1 end
  seq = seq + 1
  note(i, call('XADD', log, string.format('%.0f-%d', ms, seq), 'm', ARGV[i + 1]))
end
seal(log, scope, field, now, ms, seq)
local count = (#ARGV - first_message + 1) / 2
record(string.format('%s %d 1', first, count))
return {'ok', first, count, 1}

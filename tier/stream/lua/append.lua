#!lua
-- Appends messages, one entry each, with ids that the server mints: producer at last -> producer at number.
-- The first entry takes '*', the others follow it; after sequence 4095 the next millisecond begins. So the ids follow
-- from (first id, count), with the top ahead of the clock too. A new log begins 2 ms ahead, and at 4 sequences
-- a microsecond, faster than ids are given: one that was deleted in this moment may have given ids up to here.
-- KEYS[1] log       STREAM
-- KEYS[2] producer  STRING  'number first count size;' for the last calls, 8 at most, newest first; size: messages an entry
-- KEYS[3] scope     HASH
-- ARGV[1] number    of this call: last + 1, or the source's position when named
-- ARGV[2] ttl       ms that the producer key lives, 0 for a named producer, whose numbers may leave gaps
-- ARGV[3] node      that the caller derives ids with
-- ARGV[4] field     of the stream in the scope
-- ARGV[5] brand     that the caller derives ids with, and the partition that it appends to, as declared
-- ARGV[6] above     the highest address that this writer was given: a log that lost it begins in the millisecond after
-- ARGV[7] follows   of a named producer: what its last number has to be, 0 for none yet; '' for any
-- ARGV[8] keep      how many receipts of calls before this one may still be asked for
-- ARGV[9..]         encoded messages
-- Replies {code, first id, count, size}: ok | dup (an earlier receipt) | past (named: at or below the last, receipt gone)
--   | moved (named: the last is another than it follows) | order (not last + 1) | unknown (above 1, no key) | undeclared | removed | range (ids leave their 41 bits)
local log, producer, scope = KEYS[1], KEYS[2], KEYS[3]
local number, ttl = ARGV[1], ARGV[2]
local this = tonumber(number)
local node, field, brand, above, follows = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local keep = ARGV[8]
local first_message = 9
local call = redis.call

local declared = call('HMGET', scope, 'node', field)
if declared[1] ~= node or declared[2] ~= brand then
  return {declared[2] and string.sub(declared[2], 1, 1) == '-' and 'removed' or 'undeclared', '', 0, 0}
end

local held = call('GET', producer) or ''
local last = string.match(held, '^%d+')
if last then last = last + 0 end
for n, id, count, size in string.gmatch(last and this <= last and held or '', '(%d+) (%S+) (%d+) (%d+);') do
  if tonumber(n) == this then
    call('SET', producer, held, 'KEEPTTL') -- for who waits for replicas: they wait for what their connection wrote
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
if not last then -- asked once a producer: a right that is lacking must not show after the first write
  for _, cmd in ipairs({{'SET', producer, ''}, {'HSET', scope, field, ''}, {'XSETID', log, '0-1'}, {'XDEL', log, '0-1'}, {'XINFO', 'STREAM', log}, {'XLEN', log}, {'TIME'}}) do
    if not redis.acl_check_cmd(unpack(cmd)) then
      return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
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
local first, ms, seq = mint(log, scope, field, above, now, ARGV[first_message])
if not first then
  if ms == 'range' then return {'range', '', 0, 0} end
  return ms
end
local at
for i = first_message + 1, #ARGV do
  if seq == 4095 then ms, seq, at = ms + 1, -1, nil end
  at = at or string.format('%.0f-*', ms)
  call('XADD', log, at, 'm', ARGV[i])
  seq = seq + 1
end
seal(log, scope, field, now, ms, seq)

local count, kept = #ARGV - first_message + 1, ''
if keep ~= '0' then kept = string.match(held, '^' .. string.rep('[^;]*;', keep)) or held end
local receipts = number .. ' ' .. first .. ' ' .. count .. ' 1;' .. kept
if ttl == '0' then
  call('SET', producer, receipts)
else
  call('SET', producer, receipts, 'PX', ttl)
end
return {'ok', first, count, 1}

#!lua
-- Appends one message, unless one was appended under its key within the window: not seen -> seen, and an entry.
-- The server mints the id as in append.lua. A repetition of the call is told from a duplicate by its token.
-- KEYS[1] log      STREAM
-- KEYS[2] seen     STRING  'address token until;' for the last 8 messages, newest first: of the message; of the call that
--                          appended it; end of the window in ms. It lives longer, so that a late repetition is still known by its token
-- KEYS[3] scope    HASH
-- ARGV[1] token    of this call, the same when it is repeated
-- ARGV[2] window   ms
-- ARGV[3] keep     ms that the mark lives beyond its window
-- ARGV[4] node     that the caller derives ids with
-- ARGV[5] field    of the stream in the scope
-- ARGV[6] brand    that the caller derives ids with, and the partition that it appends to, as declared
-- ARGV[7] above    the highest address that this writer was given: a log that lost it begins in the millisecond after
-- ARGV[8] message  encoded
-- Replies {code, id, 1, 1}: ok | dup (this call's earlier sending) | seen (another call's) | undeclared | removed | range
local log, seen, scope = KEYS[1], KEYS[2], KEYS[3]
local token, window, keep = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local node, field, brand, above, message = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local call = redis.call

local declared = call('HMGET', scope, 'node', field)
if declared[1] ~= node or declared[2] ~= brand then
  return {declared[2] and string.sub(declared[2], 1, 1) == '-' and 'removed' or 'undeclared', '', 0, 0}
end
local t = call('TIME')
local now = t[1] * 1000 + t[2] / 1000
local held = call('GET', seen) or ''
local code, first
for address, by, till in string.gmatch(held, '(%S+) (%S+) (%d+);') do
  if by == token then code, first = 'dup', address; break end
  if not code and now < tonumber(till) then code, first = 'seen', address end
end
if code then
  call('SET', seen, held, 'KEEPTTL') -- for who waits for replicas: they wait for what their connection wrote
  return {code, first, 1, 1}
end
for _, cmd in ipairs({{'SET', seen, ''}, {'HSET', scope, field, ''}, {'XSETID', log, '0-1'}, {'XDEL', log, '0-1'}, {'XINFO', 'STREAM', log}, {'XLEN', log}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- which must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
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
local id, ms, seq = mint(log, scope, field, above, now, message)
if not id then
  if ms == 'range' then return {'range', '', 0, 0} end
  return ms
end
seal(log, scope, field, now, ms, seq)
local marks = {string.format('%s %s %.0f;', id, token, math.floor(now) + window)}
for earlier in string.gmatch(held, '[^;]+;') do
  if #marks < 8 then marks[#marks + 1] = earlier end
end
call('SET', seen, table.concat(marks), 'PX', string.format('%.0f', window + keep))
return {'ok', id, 1, 1}

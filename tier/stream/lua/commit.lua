#!lua
-- Ends deliveries of entries with all that comes of them, or refuses the whole call: leased -> gone, or parked until due, with
-- the messages that are open; what is given up -> dead letters; outputs -> written. For a group, an entry that is not the
-- member's any more, or at another delivery, is left alone: an earlier try of this call had its effect. For a cursor, all
-- is done once for each number.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] log      STREAM
-- KEYS[2] fence    HASH    the owners of a group | the cursors of the stream
-- KEYS[3] retry    ZSET    due ms -> entry
-- KEYS[4] open     HASH    entry -> 'deliveries' and, for each open message, ' index attempt due'
-- KEYS[5] dead     STREAM  fields: entry, index of how many (of a message of a pack), reason, attempts, then the entry's or message's own
-- KEYS[6] scope    HASH
-- KEYS[7..] targets  ANY of outputs: states, logs and the indexes of their keys
-- ARGV[1] name     of the group, or the cursor
-- ARGV[2] member   name
-- ARGV[3] number   of the member | epoch
-- ARGV[4] commit   '' of a group | number of this call: last + 1
-- ARGV[5] at       checkpoint of a cursor
-- ARGV[6] above    entries above it that are through
-- ARGV[7] passed   entries that there ever were up to the checkpoint, or ''
-- ARGV[8] node     of the scope, that ids are derived with
-- ARGV[9] expects  '' | the number of the target, a hash, that has
-- ARGV[10] expected_field  and, there,
-- ARGV[11] expected  before anything is written
-- ARGV[12] count   of targets
-- ARGV[13..]       for each target: its stream's field in the scope and what it is declared as, or '' and ''; then of each
--                  entry: id, delivery it was, open messages o, letters l, outputs n, then
--                  o times: index, attempt, ms until it is due, or -2^52 of a suspect; l times: index or '' for the entry,
--                  messages of its pack, reason, attempts, message, or of an entry that the archive has the msgpack of its fields; n times: kind, target, a, b as in write below, of append the message and its
--                  key's index or '', of hash_sets how many fields and '', then each and its value
-- Replies {code, entries that it was done for, entry, output, reason}: ok | dup | fenced | bad: that output of that entry,
--   counted from 0, cannot be written, and nothing was | unexpected: the target has another value, or none | undeclared: the target of it | range: its ids are used up
local log, fence, retry, open, dead, scope = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local name, member, number, commit, at, above, passed, node = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local expects, expected_field, expected, count = tonumber(ARGV[9]), ARGV[10], ARGV[11], ARGV[12]
local first_target, first_declared = 7, 13
local call = redis.call

local owned = commit ~= ''
if owned then
  local c = call('HMGET', fence, name .. ':owner', name .. ':epoch', name .. ':commit')
  if c[1] ~= member or c[2] ~= number then return {'fenced', 0, 0, 0, ''} end
  if c[3] == commit then return {'dup', 0, 0, 0, ''} end
  if tonumber(c[3]) ~= tonumber(commit) - 1 then return {'fenced', 0, 0, 0, ''} end
elseif call('HGET', fence, member) ~= number then
  return {'fenced', 0, 0, 0, ''}
end
if expects then
  local key = KEYS[first_target + expects - 1]
  if call('HGET', key, expected_field) ~= expected then return {'unexpected', 0, 0, 0, ''} end
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

-- What is to be done, entry by entry.
local declared, i = {}, first_declared
for _ = 1, count do
  declared[#declared + 1] = {ARGV[i], ARGV[i + 1]}
  i = i + 2
end
local entries, increments = {}, false
while i <= #ARGV do
  local e = {id = ARGV[i], row = {ARGV[i + 1]}, opened = tonumber(ARGV[i + 2]), letters = {}, outputs = {}, due = math.huge}
  local letters, outputs = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  i = i + 5
  for _ = 1, e.opened do
    local due = now + tonumber(ARGV[i + 2])
    e.row[#e.row + 1] = string.format('%s %s %.0f', ARGV[i], ARGV[i + 1], due)
    e.due = math.min(e.due, due)
    i = i + 3
  end
  for _ = 1, letters do
    e.letters[#e.letters + 1] = {unpack(ARGV, i, i + 4)}
    i = i + 5
  end
  for _ = 1, outputs do
    local o = {ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3]}
    i = i + 4
    if o[1] == 'hash_sets' then
      o[3], o[4] = i, i + 2 * tonumber(o[3]) - 1
      i = o[4] + 1
    end
    increments = increments or o[1] == 'hash_increment'
    e.outputs[#e.outputs + 1] = o
  end
  local held = not owned and call('XPENDING', log, name, e.id, e.id, 1)[1]
  e.held = owned or held and held[2] == member and tostring(held[4]) == e.row[1]
  entries[#entries + 1] = e
end

-- Whether each output can be written, after those before it. An integer is two limbs, high * 10^9 + low with 0 <= low,
-- since a number here has 53 bits only.
local function sum(a, b)
  local low = a[2] + b[2]
  local high = a[1] + b[1] + math.floor(low / 1000000000)
  low = low % 1000000000
  if high > 9223372036 or (high == 9223372036 and low > 854775807) then return nil end
  if high < -9223372037 or (high == -9223372037 and low < 145224192) then return nil end
  return {high, low}
end
local zero = {0, 0}
local function integer(text)
  if text == '0' then return zero end
  local sign, digits = string.match(text, '^(%-?)([1-9]%d*)$')
  if not digits or #digits > 19 then return nil end
  local high, low = tonumber(string.sub(digits, 1, -10)) or 0, tonumber(string.sub(digits, -9))
  if sign == '-' then high, low = -high, -low end
  return sum({high, low}, zero)
end
local wanted = {hash_set = 'hash', hash_sets = 'hash', hash_increment = 'hash', sorted_add = 'zset', set_add = 'set', append = 'stream', index = 'zset'}
local rights = {{'XADD', dead, '*', 'f', ''}, {'HSET', open, 'f', ''}, {'HDEL', open, 'f'}, {'ZADD', retry, '0', 'm'}, {'ZREM', retry, 'm'}, {'TYPE', dead},
  {'XRANGE', log, '0-1', '0-1'}, owned and {'HSET', fence, 'f', ''} or {'XACK', log, name, '0-1'}}
local asked = {}
local function needs(command, key, third, ...) -- once for each: there may be thousands
  local k = command .. key .. (third or '')
  if not asked[k] then rights[#rights + 1] = {command, key, third, ...} end
  asked[k] = true
end
local types, values, emptied, last_ms = {}, {}, {}, 3903090455551
local function value(target, field) -- of a hash field after the outputs before, an integer or nil
  local known = values[target] and values[target][field]
  if known ~= nil then return known or nil end
  local key = KEYS[first_target + target - 1]
  local held = not emptied[target] and call('HGET', key, field)
  if not held then return zero end
  return integer(held)
end
local function holds(target, field, v)
  values[target] = values[target] or {}
  values[target][field] = v or false
end
local refuse
function refuse(kind, target, a, b) -- why an output cannot be written: code, reason
  local key = KEYS[first_target + target - 1]
  local found = not types[target] and call('TYPE', key).ok
  local was = types[target] or found
  local want = wanted[kind]
  if want and was ~= 'none' and was ~= want then return 'bad', 'holds a ' .. was .. ', not a ' .. want end
  types[target] = want or was
  if kind == 'append' then
    local d = declared[target]
    local has = call('HMGET', scope, 'node', d[1], 'top' .. string.sub(d[1], 7))
    if has[2] and string.sub(has[2], 1, 1) == '-' then return 'bad', 'the stream was removed' end
    if has[1] ~= node or has[2] ~= d[2] then return 'undeclared', '' end
    if now < 1704067200000 or tonumber(string.match(has[3] or '0', '^%d+')) + 4096 > last_ms then return 'range', '' end
    for _, command in ipairs({'XADD', 'XDEL', 'XSETID', 'XLEN'}) do needs(command, key, '*', 'f', '') end
    needs('HSET', scope, 'f', '')
    needs('XINFO', 'STREAM', key)
    if found == 'stream' then
      local info = call('XINFO', 'STREAM', key)
      for k = 1, #info, 2 do
        if info[k] == 'last-generated-id' and tonumber(string.match(info[k + 1], '^%d+')) + 4096 > last_ms then return 'range', '' end
      end
    end
    if b ~= '' then return refuse('index', tonumber(b)) end
  elseif kind == 'index' then
    needs('ZADD', key, '0', 'm')
    needs('ZRANGE', key, '0', '0')
  elseif kind == 'sorted_add' then
    needs('ZADD', key, '0', 'm')
  elseif kind == 'set_add' then
    needs('SADD', key, 'm')
  elseif kind == 'hash_set' then
    needs('HSET', key, 'f', '')
    holds(target, a, integer(b))
  elseif kind == 'hash_sets' then
    needs('HSET', key, 'f', '')
    for k = a, increments and b or 0, 2 do holds(target, ARGV[k], integer(ARGV[k + 1])) end
  elseif kind == 'hash_increment' then
    needs('HINCRBY', key, 'f', '1')
    local v = value(target, a)
    if not v then return 'bad', 'the field is no integer of 64 bits' end
    local result = sum(v, integer(b))
    if not result then return 'bad', 'the sum has more than 64 bits' end
    holds(target, a, result)
  elseif kind == 'remove' then
    if was ~= 'none' and was ~= 'hash' and was ~= 'zset' and was ~= 'set' then return 'bad', 'holds a ' .. was .. ', which has no members' end
    needs('HDEL', key, 'f')
    needs('ZREM', key, 'm')
    needs('SREM', key, 'm')
    if was == 'hash' then holds(target, a, zero) end
  elseif kind == 'delete' then
    needs('DEL', key)
    types[target], values[target], emptied[target] = 'none', nil, true
  end
end
local fine = {} -- targets that may be appended to, each asked about once: what stands between has no say in it
for n, e in ipairs(entries) do
  for k, o in ipairs(e.held and e.outputs or {}) do
    if not fine[o[2]] or o[1] ~= 'append' or o[4] ~= '' then
      local code, reason = refuse(unpack(o))
      if code then return {code, 0, n - 1, k - 1, reason} end
      fine[o[2]] = o[1] == 'append'
    end
  end
end
for _, cmd in ipairs(rights) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local parked = false -- there is something of entries that were parked
for key, want in pairs({[dead] = 'stream', [open] = 'hash', [retry] = 'zset'}) do
  local is = call('TYPE', key).ok
  parked = parked or key ~= dead and is ~= 'none'
  if is ~= 'none' and is ~= want then return redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value') end
end

local function bury(id, index, of, reason, attempts, message)
  local letter = {dead, '*', 'entry', id}
  local function put(field, text) letter[#letter + 1] = field; letter[#letter + 1] = text end
  if index ~= '' then
    put('index', index)
    put('of', of)
  end
  put('reason', reason)
  put('attempts', attempts)
  if index ~= '' then
    put('m', message)
  else
    local entry = call('XRANGE', log, id, id)[1]
    local fields = entry and entry[2] or message ~= '' and cmsgpack.unpack(message) or {}
    for k = 1, math.min(#fields, 4000) do letter[#letter + 1] = fields[k] end
  end
  call('XADD', unpack(letter))
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
local tails, exact = {}, t[1] * 1000 + t[2] / 1000 -- of the targets that were appended to, the last id
local write = {
  append = function(key, message, index, target)
    local tail, id = tails[target], nil
    if tail then
      if tail.seq == 4095 then tail.ms, tail.seq, tail.at = tail.ms + 1, -1, nil end
      tail.at = tail.at or string.format('%.0f-*', tail.ms)
      id, tail.seq = call('XADD', key, tail.at, 'm', message), tail.seq + 1
    else
      local ms, seq
      id, ms, seq = mint(key, scope, declared[target][1], '0-0', exact, message)
      if id then tails[target] = {ms = ms, seq = seq} end
    end
    if id and index ~= '' then -- the message's key has one version more
      local key = KEYS[first_target + index - 1]
      local newest = call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] or 0
      call('ZADD', key, string.format('%.0f', newest + 1), id)
    end
  end,
  hash_set = function(key, field, text) call('HSET', key, field, text) end,
  hash_sets = function(key, from, to)
    for k = from, to, 2000 do call('HSET', key, unpack(ARGV, k, math.min(to, k + 1999))) end
  end,
  hash_increment = function(key, field, by) call('HINCRBY', key, field, by) end,
  sorted_add = function(key, m, score) call('ZADD', key, score, m) end,
  set_add = function(key, m) call('SADD', key, m) end,
  remove = function(key, m)
    local is = call('TYPE', key).ok
    if is == 'hash' then call('HDEL', key, m) elseif is == 'zset' then call('ZREM', key, m) elseif is == 'set' then call('SREM', key, m) end
  end,
  delete = function(key) call('DEL', key) end,
}
local done = 0
for _, e in ipairs(entries) do
  if e.held then
    for _, letter in ipairs(e.letters) do bury(e.id, unpack(letter)) end
    for _, o in ipairs(e.outputs) do write[o[1]](KEYS[first_target + o[2] - 1], o[3], o[4], o[2]) end
    if e.opened > 0 then
      call('HSET', open, e.id, table.concat(e.row, ' '))
      call('ZADD', retry, string.format('%.0f', e.due), e.id)
    elseif parked then
      call('HDEL', open, e.id)
      if owned then call('ZREM', retry, e.id) end
    end
    if not owned then call('XACK', log, name, e.id) end
    done = done + 1
  end
end
for target, tail in pairs(tails) do seal(KEYS[first_target + target - 1], scope, declared[target][1], exact, tail.ms, tail.seq) end
if owned then call('HSET', fence, name .. ':commit', commit, name .. ':at', at, name .. ':above', above, name .. ':passed', passed) end
return {'ok', done, 0, 0, ''}

#!lua flags=allow-oom
-- Drains a lane: ready -> gone, with their unique keys and notes, a bounded number of jobs. Of those of flows the outbox is
-- told. Active ones stay.
-- KEYS[1] jobs     HASH
-- KEYS[2] unique   HASH
-- KEYS[3] outbox   STREAM
-- KEYS[4] notes    HASH
-- KEYS[5] log      STREAM  of the lane
-- KEYS[6] queue    HASH  only looked at
-- KEYS[7] events   STREAM
-- ARGV[1] name     of the lane
-- ARGV[2] most     jobs to drain
-- Replies how many were drained
local jobs, unique, outbox, notes, log, queue, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local name, most = ARGV[1], ARGV[2]
local call = redis.call

if call('EXISTS', log) == 0 then return 0 end
local after
for _, g in ipairs(call('XINFO', 'GROUPS', log)) do
  for k = 1, g[2] == 'w' and #g or 0, 2 do
    if g[k] == 'last-delivered-id' then after = g[k + 1] end
  end
end
local entries = call('XRANGE', log, '(' .. after, '+', 'COUNT', most)
local ids, rows, keys, families = {}, {}, {}, {}
for i, e in ipairs(entries) do
  ids[i] = e[1]
  for k = 1, #e[2], 2 do
    if e[2][k] == 'j' then rows[#rows + 1] = e[2][k + 1] end
    if e[2][k] == 'p' then families[e[2][2]] = e[2][k + 1] end
    local key = e[2][k] == 'u' and string.sub(e[2][k + 1], 2)
    if key and string.match(call('HGET', unique, key) or '', '^%S+') == e[2][2] then keys[#keys + 1] = key end
  end
end
if #ids == 0 then return 0 end
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
for _, cmd in ipairs({{'XDEL', log, '0-1'}, {'HDEL', jobs, 'f'}, {'XLEN', log}, {'DEL', log},
  {'XGROUP', 'CREATE', outbox, 'w', '0'}, {'XADD', outbox, '*', 'j', ''}, {'XADD', events, '*', 'm', ''}, {'XSETID', events, '0-1'}}) do
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
for _, id in ipairs(rows) do report(id, 'ready', 'gone', name, '', 'drained') end
for id, family in pairs(families) do tell(id, family, 'removed', 'drained') end
call('XDEL', log, unpack(ids))
if #rows > 0 then
  call('HDEL', jobs, unpack(rows))
  call('HDEL', notes, unpack(rows))
end
if #keys > 0 then call('HDEL', unique, unpack(keys)) end
if call('XLEN', log) == 0 then call('DEL', log) end -- who looks whether a lease has ended there counts what was active
publish()
return #ids

#!lua flags=allow-oom
-- Drains a lane: ready -> gone, with their unique keys, a bounded number of jobs. Of those of flows the outbox is
-- told. Active ones stay.
-- KEYS[1] jobs     HASH
-- KEYS[2] unique   HASH
-- KEYS[3] leased   ZSET
-- KEYS[4] outbox   STREAM
-- KEYS[5] log      STREAM  of the lane
-- ARGV[1] name     of the lane
-- ARGV[2] most     jobs to drain
-- Replies how many were drained
local jobs, unique, leased, outbox, log = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local name, most = ARGV[1], ARGV[2]
local call = redis.call

if call('EXISTS', log) == 0 then return 0 end
local after
for _, g in ipairs(call('XINFO', 'GROUPS', log)) do
  for k = 1, #g, 2 do
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
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'XDEL', log, '0-1'}, {'HDEL', jobs, 'f'}, {'XLEN', log}, {'DEL', log}, {'ZREM', leased, 'm'},
  {'XGROUP', 'CREATE', outbox, 'w', '0'}, {'XADD', outbox, '*', 'j', ''}}) do
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
for id, family in pairs(families) do tell(id, family, 'removed', 'drained') end
call('XDEL', log, unpack(ids))
if #rows > 0 then call('HDEL', jobs, unpack(rows)) end
if #keys > 0 then call('HDEL', unique, unpack(keys)) end
if call('XLEN', log) == 0 then
  call('DEL', log)
  call('ZREM', leased, name)
end
return #ids

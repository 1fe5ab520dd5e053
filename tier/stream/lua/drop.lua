#!lua flags=allow-oom
-- Drops the oldest entries of a log above its hard cap, whoever holds them: held -> gone, counted for each that they were
-- taken from. A small slice, since each entry is looked for at each holder. What everybody is through with is trim.lua's.
-- KEYS[1] scope      HASH    only looked at
-- KEYS[2] sweeper    HASH    only looked at
-- KEYS[3] log        STREAM
-- KEYS[4] cursors    HASH    only looked at
-- KEYS[5] retention  HASH
-- KEYS[6..] retries  ZSET    of the first group or cursor, of the second, ...; only looked at
-- ARGV[1] owner      who holds the right to trim
-- ARGV[2] epoch      of its holding
-- ARGV[3] field      of the policy in the scope
-- ARGV[4] policy     that the caller has read
-- ARGV[5] cap        entries that stay, the newest
-- ARGV[6] slice      entries that go at most
-- ARGV[7..] names    groups and cursors; those whose keys are among the retries first
-- Replies {'ok', entries that went, 1 when there are more of them, entries that are left, {name, entries that it had not settled, ...}}: the
--   name of what the archive has not stored is ''
--   | {'fenced' | 'policy', 0, 0, 0, {}}: the right to trim is another's; the policy is another
--   | {'changed', 0, 0, 0, {name, ...}}: there is a group or cursor that the caller does not know; these are all
local scope, sweeper, log, cursors, retention = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, epoch, field, policy, cap, slice = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local call = redis.call

local known = {}
for i = 7, #ARGV do known[ARGV[i]] = i - 1 end
-- sweeper begin: refuses who does not hold the right to trim, or has read another policy
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local row = call('HMGET', sweeper, 'owner', 'epoch', 'until')
if row[1] ~= owner or row[2] ~= epoch or tonumber(row[3]) <= now then return {'fenced', 0, 0, 0, {}} end
if call('HGET', scope, field) ~= policy then return {'policy', 0, 0, 0, {}} end
for _, cmd in ipairs({{'XTRIM', log, 'MAXLEN', '0'}, {'XRANGE', log, '-', '+'}, {'HINCRBY', retention, 'f', '1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
-- sweeper end

-- floor begin: who holds which entry as the first that it needs, and the lowest of these; stranger: there is one that the
-- caller has not declared
local function below(a, b) -- by digits: the numbers of other programs' ids may be beyond what a double counts
  local am, as = string.match(a, '^(%d+)%-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)%-(%d+)$')
  if am == bm then am, bm = as, bs end
  return #am < #bm or (#am == #bm and am < bm)
end
local function after(id) -- the next one, or the same, with which one more stays
  local ms, seq = string.match(id, '^(%d+)%-(%d+)$')
  return #seq > 15 and id or string.format('%s-%.0f', ms, seq + 1)
end
local function parked(retry) -- the lowest in a retry set; of a large one, the first 1000 entries of the log are asked for
  local n, lowest = call('ZCARD', retry), nil
  if n == 0 then return nil end
  if n <= 10000 then
    for _, id in ipairs(call('ZRANGE', retry, '0', '-1')) do
      if not lowest or below(id, lowest) then lowest = id end
    end
    return lowest
  end
  lowest = '-'
  for i = 1, 1000 do
    local entry = call('XRANGE', log, i == 1 and '-' or '(' .. lowest, '+', 'COUNT', 1)[1]
    if not entry then break end
    lowest = entry[1]
    if call('ZSCORE', retry, lowest) then break end
  end
  return lowest ~= '-' and lowest or nil
end
local holds, floor, stranger = {}, nil, false
local function hold(name, why, id, more)
  if not id then return end
  holds[#holds + 1] = {name, why, id, more}
  if not floor or below(id, floor) then floor = id end
end
for _, g in ipairs(call('EXISTS', log) == 1 and call('XINFO', 'GROUPS', log) or {}) do
  local name, pending, last = g[2], g[6], g[8]
  if not known[name] then stranger = true end
  local retry = KEYS[known[name] or 0]
  hold(name, 'unread', after(last), {group = true, last = last, pending = pending > 0})
  if pending > 0 then hold(name, 'pending', call('XPENDING', log, name)[2]) end
  if retry then hold(name, 'parked', parked(retry)) end
end
local rows, c = call('HGETALL', cursors), {}
for i = 1, #rows, 2 do c[rows[i]] = rows[i + 1] end
for i = 1, #rows, 2 do
  local name = string.match(rows[i], '^(.*):epoch$')
  if name then
    if not known[name] then stranger = true end
    local retry = KEYS[known[name] or 0]
    hold(name, 'unread', after(c[name .. ':at']), {last = c[name .. ':at'], above = ' ' .. c[name .. ':above'] .. ' '})
    if retry then hold(name, 'parked', parked(retry)) end
  end
end
local mark = call('HGET', retention, 'mark')
if mark then hold('', 'unarchived', after(mark), {last = mark, above = ''}) end
-- floor end
if stranger then
  local names = {}
  for _, hold in ipairs(holds) do
    if hold[2] == 'unread' then names[#names + 1] = hold[1] end
  end
  return {'changed', 0, 0, 0, names}
end

local function unsettled(name, h, id)
  if below(h.last, id) then return h.group or not string.find(h.above, ' ' .. id .. ' ', 1, true) end
  if h.pending and #call('XPENDING', log, name, id, id, 1) > 0 then return true end
  local retry = KEYS[known[name] or 0]
  return retry and call('ZSCORE', retry, id)
end
local length = call('XLEN', log)
local n, at, kept, lost = 0, '-', nil, {}
for i = 0, math.min(slice, length - cap) do
  local entry = call('XRANGE', log, at, '+', 'COUNT', 1)[1]
  if not entry then break end
  kept = entry[1]
  if i == math.min(slice, length - cap) then break end
  for _, hold in ipairs(holds) do
    local name, h = hold[1], hold[4]
    if h and unsettled(name, h, kept) then lost[name] = (lost[name] or 0) + 1 end
  end
  n, at = n + 1, '(' .. kept
end
if n <= 0 then return {'ok', 0, 0, length, {}} end
if not redis.acl_check_cmd('HSET', retention, 'f', 'v') then return redis.error_reply("NOPERM the user has no permissions to run the 'hset' command") end
if n < length then call('XTRIM', log, 'MINID', kept) else call('XTRIM', log, 'MAXLEN', '0') end
call('HINCRBY', retention, 'trimmed', n)
if lost[''] or not mark then call('HSET', retention, 'lost', n < length and kept or after(kept)) end
local dropped = {}
for name, entries in pairs(lost) do
  call('HINCRBY', retention, 'dropped:' .. name, entries)
  dropped[#dropped + 1], dropped[#dropped + 2] = name, string.format('%.0f', entries)
end
return {'ok', n, length - n > cap and 1 or 0, length - n, dropped}

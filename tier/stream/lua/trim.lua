#!lua flags=allow-oom
-- Trims a log below the floor, which is the first entry that somebody needs: what a policy lets go and nobody holds -> gone.
-- One slice of it. Nothing goes when the caller does not know all groups and cursors, has read another policy than there is,
-- or does not hold the right to trim.
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
-- ARGV[5] keep       entries that stay, the newest; '' is no bound
-- ARGV[6] age        ms after which entries go; '' is never
-- ARGV[7] settled    '1': all below the floor go
-- ARGV[8] exact      '1': entries go one by one, at the end; else whole nodes of the server's only
-- ARGV[9] slice      entries that go at most, above 128
-- ARGV[10..] names   groups and cursors; those whose keys are among the retries first
-- Replies {'ok', entries that went, 1 when there may be more of them, entries that are left, {}}
--   | {'fenced' | 'policy', 0, 0, 0, {}}: the right to trim is another's; the policy is another
--   | {'changed', 0, 0, 0, {name, ...}}: there is a group or cursor that the caller does not know; these are all
local scope, sweeper, log, cursors, retention = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, epoch, field, policy, keep, age = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local settled, exact, slice = ARGV[7] == '1', ARGV[8] == '1', tonumber(ARGV[9])
local call = redis.call

local known = {}
for i = 10, #ARGV do known[ARGV[i]] = i - 4 end
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

if not redis.acl_check_cmd('HSET', retention, 'f', 'v') then return redis.error_reply("NOPERM the user has no permissions to run the 'hset' command") end
local held = floor ~= nil
floor = floor or '18446744073709551615-18446744073709551615'
local bound = settled and held and floor or '0-0' -- below it entries go, whatever number is left
local old = age ~= '' and string.format('%.0f-0', math.max(0, now - age))
if old and below(bound, old) then bound = below(old, floor) and old or floor end
local length = call('XLEN', log)
local last = not mark and (call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1] or {'0-0'})[1]
local gone, most = 0, keep ~= '' and math.max(0, length - keep) or 0
if bound ~= '0-0' then gone = call('XTRIM', log, 'MINID', '~', bound, 'LIMIT', slice) end
local rest = math.min(most, slice) - gone -- 0 as a LIMIT is none
if rest > 0 then gone = gone + call('XTRIM', log, 'MINID', '~', floor, 'LIMIT', rest) end
local more = gone + 128 > slice -- a node that did not fit ended it, which may be 100 entries
if exact and not more then -- what is left to go lies in the first node
  local n, at, kept = 0, '-', nil
  for i = 0, 128 do
    local entry = call('XRANGE', log, at, '+', 'COUNT', 1)[1]
    if not entry then break end
    if i == 128 or not below(entry[1], floor) or not (below(entry[1], bound) or gone + n < most) then
      kept, more = entry[1], i == 128
      break
    end
    n, at = n + 1, '(' .. entry[1]
  end
  if n > 0 and kept then call('XTRIM', log, 'MINID', kept) elseif n > 0 then call('XTRIM', log, 'MAXLEN', '0') end
  gone = gone + n
end
if gone > 0 then
  call('HINCRBY', retention, 'trimmed', gone)
  local first = not mark and call('XRANGE', log, '-', '+', 'COUNT', 1)[1] -- an archive that is begun later lacks what lies below it
  if first then call('HSET', retention, 'lost', first[1]) elseif not mark then call('HSET', retention, 'lost', after(last)) end
end
return {'ok', gone, more and 1 or 0, length - gone, {}}

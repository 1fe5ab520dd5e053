#!lua flags=allow-oom
-- Tells who holds a log's entries back from being trimmed, by what trim.lua goes by, and what was trimmed so far.
-- KEYS[1] log        STREAM  only looked at
-- KEYS[2] cursors    HASH    only looked at
-- KEYS[3] retention  HASH    only looked at
-- KEYS[4..] retries  ZSET    of the first group or cursor, of the second, ...; only looked at
-- ARGV[1..] names    groups and cursors, as the caller knows them; those whose keys are among the retries first
-- Replies {'ok' | 'changed' when there is a group or cursor that the caller does not know, now in ms, entries, id of the first or '', of the last or '',
--   {name, 'unread' | 'pending' | 'parked' | 'unarchived', id of the first entry that it needs, ...}, {field, value of retention, ...}}
local log, cursors, retention = KEYS[1], KEYS[2], KEYS[3]
local call = redis.call

local known = {}
for i = 1, #ARGV do known[ARGV[i]] = i + 3 end
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
local t = call('TIME')
local first, last = call('XRANGE', log, '-', '+', 'COUNT', 1)[1], call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
local flat = {}
for _, hold in ipairs(holds) do
  for i = 1, 3 do flat[#flat + 1] = hold[i] end
end
return {stranger and 'changed' or 'ok', t[1] * 1000 + math.floor(t[2] / 1000), call('XLEN', log), first and first[1] or '', last and last[1] or '',
  flat, call('HGETALL', retention)}

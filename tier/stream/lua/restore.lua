#!lua
-- Puts entries that a log has lost back into it, with their ids: staged beside it -> in the log. A log without entries takes them all at
-- once, with the groups that it has; one that still has some takes a slice of those above its newest. It goes on with ids above all that
-- it has given. Nothing changes when it has given one since the caller looked.
-- KEYS[1] scope   HASH    only looked at
-- KEYS[2] log     STREAM
-- KEYS[3] staged  STREAM
-- ARGV[1] node    that ids are derived with
-- ARGV[2] field   of the stream in the scope
-- ARGV[3] brand   of the stream as it is declared
-- ARGV[4] rules   field of its policy in the scope
-- ARGV[5] policy  that the caller has read; '' is none
-- ARGV[6] seen    last id that the log had given when the caller looked
-- ARGV[7] last    entry that is staged
-- ARGV[8] length  entries that are staged
-- ARGV[9] slice   entries, and
-- ARGV[10] limit  bytes that go into a log with entries at most, though one entry at least
-- Replies {'ok', 1 when some are still staged, newest entry of the log} | {'undeclared' | 'policy' | 'changed' | 'absent', 0, ''}: the stream is
--   another; the policy is; the log has given an id; what is staged is not what the caller has put there
--   | {'pending', how many, group}: it was given entries that the log has no more
local scope, log, staged = KEYS[1], KEYS[2], KEYS[3]
local node, field, brand, rules, policy, seen, last = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local length, slice, limit = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local call = redis.call
local function below(a, b) -- by digits: the numbers of other programs' ids may be beyond what a double counts
  local am, as = string.match(a, '^(%d+)%-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)%-(%d+)$')
  if am == bm then am, bm = as, bs end
  return #am < #bm or (#am == #bm and am < bm)
end

local declared = call('HMGET', scope, 'node', field, rules, 'top' .. string.sub(field, 7)) -- field is stream:<name>
if declared[1] ~= node or declared[2] ~= brand then return {'undeclared', 0, ''} end
if (declared[3] or '') ~= policy then return {'policy', 0, ''} end
local newest = (call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1] or {'0-0'})[1]
local reach = call('XREVRANGE', staged, '+', '-', 'COUNT', 1)[1]
if not reach or reach[1] ~= last or call('XLEN', staged) ~= length then
  return {newest == last and 'ok' or 'absent', 0, newest} -- it was done before
end
local exists, mark, added, deleted, groups = call('EXISTS', log) == 1, declared[4] or '0-0', 0, '0-0', {}
local given, top = '0-0', last
local info = exists and call('XINFO', 'STREAM', log) or {}
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then given = info[i + 1] end
  if info[i] == 'entries-added' then added = info[i + 1] end
  if info[i] == 'max-deleted-entry-id' then deleted = info[i + 1] end
end
if given == '0-0' then given = mark end -- it may have been there before
for _, id in ipairs({seen, mark}) do
  if below(top, id) then top = id end
end
if given ~= seen and given ~= top or not below(newest, last) then return {'changed', 0, ''} end -- the top is of a slice before
if exists and newest == '0-0' then groups = call('XINFO', 'GROUPS', log) end
for _, g in ipairs(groups) do
  if g[6] > 0 then return {'pending', g[6], g[2]} end
end
for _, cmd in ipairs({{'XADD', log, '*', 'f', 'v'}, {'XSETID', log, '0-1'}, {'XSETID', staged, '0-1'}, {'XGROUP', 'CREATE', staged, 'g', '0'},
  {'PERSIST', staged}, {'RENAME', staged, log}, {'XRANGE', staged, '-', '+'}, {'DEL', staged}, {'XLEN', staged}, {'TIME'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1] == 'XGROUP' and 'xgroup|create' or cmd[1]) .. "' command")
  end
end

if newest ~= '0-0' then
  call('XSETID', log, top, 'ENTRIESADDED', added, 'MAXDELETEDID', '0-1') -- or the next is refused, below what was deleted
  call('XSETID', log, newest) -- down, for ids below the top
  local n, bytes = 0, 0
  while n < slice and (bytes < limit or n == 0) do
    local entry = call('XRANGE', staged, '(' .. newest, '+', 'COUNT', 1)[1]
    if not entry then break end
    call('XADD', log, entry[1], unpack(entry[2]))
    newest, n = entry[1], n + 1
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
  end
  call('XSETID', log, top, 'ENTRIESADDED', added + n, 'MAXDELETEDID', deleted)
  if newest ~= last then return {'ok', 1, newest} end
  call('DEL', staged)
  return {'ok', 0, newest}
end
if added == 0 and not string.find(brand, ' exclusive') then -- a new log begins above the clock, and faster than ids are given
  local t = call('TIME')
  local now = t[1] * 1000 + t[2] / 1000
  local soon = string.format('%.0f-%d', math.floor(now) + 2, math.floor(now % 1 * 4000))
  if below(top, soon) then top = soon end
end
call('XSETID', staged, top, 'ENTRIESADDED', string.format('%.0f', math.max(added, call('XLEN', staged))), 'MAXDELETEDID', deleted)
for _, g in ipairs(groups) do call('XGROUP', 'CREATE', staged, g[2], g[8], 'ENTRIESREAD', g[10] or -1) end
call('PERSIST', staged)
call('RENAME', staged, log)
return {'ok', 0, last}

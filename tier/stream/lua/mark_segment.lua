#!lua flags=allow-oom
-- Marks what the archive has: the entries up to the last that its manifest lists may go, and a segment that was chosen and begins there or below is none any more. Where a failover lost
-- the end of the log, it goes on above that entry: no new one may come below the mark. Refused when ids may have come below it since the caller looked.
-- KEYS[1] scope      HASH
-- KEYS[2] sweeper    HASH    only looked at
-- KEYS[3] log        STREAM
-- KEYS[4] retention  HASH
-- KEYS[5] archived   STRING  the mark again, for other programs
-- ARGV[1] owner      who holds the right to trim
-- ARGV[2] epoch      of its holding
-- ARGV[3] field      of the policy in the scope
-- ARGV[4] policy     that the caller has read
-- ARGV[5] last       entry that the manifest lists
-- ARGV[6] seen       last id of the log when the caller looked for entries up to there that the archive does not have
-- Replies {'ok', the mark, 1 when the log was moved, 0, {}}
--   | {'fenced' | 'policy' | 'changed', 0, 0, 0, {}}: the right to trim is another's; the policy is another; the log has given ids since
local scope, sweeper, log, retention, archived = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, epoch, field, policy, last, seen = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local call = redis.call

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
local function below(a, b) -- by digits: the numbers of other programs' ids may be beyond what a double counts
  local am, as = string.match(a, '^(%d+)%-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)%-(%d+)$')
  if am == bm then am, bm = as, bs end
  return #am < #bm or (#am == #bm and am < bm)
end
local mark, from = call('HGET', retention, 'mark') or '0-0', call('HGET', retention, 'from')
if below(mark, last) then mark = last end
-- top begin: the last id that the log has given; one that is begun anew begins above top:<name>
local above = 'top' .. string.sub(field, 10) -- field is retention:<name>
local top, exists = call('HGET', scope, above) or '0-0', call('EXISTS', log) == 1
local info = exists and call('XINFO', 'STREAM', log) or {}
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then top = info[i + 1] end
end
-- top end
if top ~= seen and (below(seen, last) or below(top, last)) then return {'changed', 0, 0, 0, {}} end
for name, cmd in pairs({hset = {'HSET', scope, 'f', 'v'}, hdel = {'HDEL', retention, 'f'}, xsetid = {'XSETID', log, '0-1'}, set = {'SET', archived, 'v'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. name .. "' command")
  end
end

call('HSET', retention, 'mark', mark)
call('SET', archived, mark)
if from and not below(mark, from) then call('HDEL', retention, 'from', 'to') end
if not below(top, mark) then return {'ok', mark, 0, 0, {}} end
if below(call('HGET', scope, above) or '0-0', mark) then call('HSET', scope, above, mark) end
if not exists then return {'ok', mark, 0, 0, {}} end
call('XSETID', log, mark)
return {'ok', mark, 1, 0, {}}

#!lua flags=allow-oom
-- Chooses the segment that is to be archived next: none -> from the first entry above the mark up to one that is old enough. One
-- that is chosen stays so until its mark is set, whoever asks: so everybody archives the same entries under the same name.
-- KEYS[1] scope      HASH    only looked at
-- KEYS[2] sweeper    HASH    only looked at
-- KEYS[3] log        STREAM  only looked at
-- KEYS[4] retention  HASH
-- ARGV[1] owner      who holds the right to trim
-- ARGV[2] epoch      of its holding
-- ARGV[3] field      of the policy in the scope
-- ARGV[4] policy     that the caller has read
-- ARGV[5] mark       above which the segment begins, as the caller knows it
-- ARGV[6] to         id of its last entry; '' only asks
-- ARGV[7] settle     ms that an entry has to be old
-- Replies {'ok', from or '', to or '', mark, {top}}: the segment that is chosen now, if any; the last id that the log has given
--   | {'fenced' | 'policy', 0, 0, 0, {}}: the right to trim is another's; the policy is another
local scope, sweeper, log, retention = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, epoch, field, policy, mark, to, settle = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
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
-- top begin: the last id that the log has given; one that is begun anew begins above top:<name>
local above = 'top' .. string.sub(field, 10) -- field is retention:<name>
local top, exists = call('HGET', scope, above) or '0-0', call('EXISTS', log) == 1
local info = exists and call('XINFO', 'STREAM', log) or {}
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then top = info[i + 1] end
end
-- top end
local at = call('HGET', retention, 'mark') or '0-0'
local chosen = call('HGET', retention, 'to')
if chosen then return {'ok', call('HGET', retention, 'from'), chosen, at, {top}} end
if to == '' or mark ~= at or not below(to, string.format('%.0f-0', math.max(0, now - settle))) then return {'ok', '', '', at, {top}} end
local first = call('XRANGE', log, '(' .. at, to, 'COUNT', 1)[1]
if not first then return {'ok', '', '', at, {top}} end
call('HSET', retention, 'from', first[1], 'to', to)
return {'ok', first[1], to, at, {top}}

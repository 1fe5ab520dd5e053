#!lua flags=allow-oom
-- Declares what of a stream may go: any policy -> another, or none. What writers compare, the stream's own field, stays as it
-- is. It runs on a full server, which it may help to drain. With another store than before, nothing is archived yet: from
-- then on the archive holds every entry, and what went as archived before is lost to it.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] scope      HASH
-- KEYS[2] retention  HASH
-- KEYS[3] archived   STRING
-- KEYS[4] log        STREAM  only looked at
-- ARGV[1] stream     field of the stream
-- ARGV[2] field      of its policy
-- ARGV[3] policy     in words; '' is none
-- ARGV[4] store      that the archive goes to; '' is none
-- Replies 'ok' | 'absent': no such stream | 'removed'
local scope, retention, archived, log = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stream, field, policy, store = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call

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
local declared = call('HGET', scope, stream)
if not declared then return 'absent' end
if string.sub(declared, 1, 1) == '-' then return 'removed' end
for name, cmd in pairs({hset = {'HSET', retention, 'f', 'v'}, hdel = {'HDEL', retention, 'f'}, del = {'DEL', archived}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. name .. "' command")
  end
end
if store ~= (call('HGET', retention, 'store') or '') then
  local mark, lost = call('HGET', retention, 'mark') or '0-0', call('HGET', retention, 'lost') or '0-0'
  local first, added = call('XRANGE', log, '-', '+', 'COUNT', 1)[1], 0
  local info = first and call('XINFO', 'STREAM', log) or {}
  for i = 1, #info, 2 do
    if info[i] == 'entries-added' then added = info[i + 1] end
  end
  if mark ~= '0-0' and not (first and added == call('XLEN', log)) then -- what went up to there, the store before has
    local from = first and not below(mark, first[1]) and first[1] or after(mark)
    if below(lost, from) then call('HSET', retention, 'lost', from) end
  end
  call('HDEL', retention, 'mark', 'from', 'to', 'store')
  call('DEL', archived)
  if store ~= '' then call('HSET', retention, 'mark', '0-0', 'store', store) end
end
if policy == '' then
  call('HDEL', scope, field)
else
  call('HSET', scope, field, policy)
end
return 'ok'

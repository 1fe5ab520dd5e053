#!lua flags=allow-oom
-- Takes the ownership of a cursor: absent -> owned, at its declared start; free -> owned, with a higher epoch; owned by the
-- caller -> the same, for another lease. Of a log that ends below the checkpoint, and so is another one than it was, the
-- cursor begins at 0-0, and what was parked is forgotten. What the last owner had taken up again is parked again; as a
-- suspect, if it did not hand the cursor over. It runs on a full server, as create_group.lua.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] log      STREAM
-- KEYS[2] cursors  HASH    of a cursor c: c:owner, c:epoch ...
-- KEYS[3] scope    HASH
-- KEYS[4] group    HASH    of a group of that name, which there must not be
-- KEYS[5] retry    ZSET    due ms -> entry; see due_owned.lua
-- KEYS[6] open     HASH
-- ARGV[1] field    of the stream in the scope
-- ARGV[2] name     of the cursor
-- ARGV[3] member   who asks
-- ARGV[4] lease    ms, of a cursor that is made
-- ARGV[5] after    id after which it reads; '$' for what is new
-- ARGV[6] start    the first message's id as declared
-- ARGV[7] lost     '1': the caller knows that there was such a cursor
-- Replies {code, epoch, commit, checkpoint, above, crashes at it, reach of the owners that crashed, start, live, lease ms, ms until it is free, owner, passed, paused since or ''}:
--   acquired | owned | standby | restarted (acquired, at 0-0) | removed | deleted (lost = '1' only) | group (there is one)
local log, cursors, scope, group, retry, open = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local field, name, member, lease, after, start, lost = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7] == '1'
local call = redis.call
local taken = 4503599627370496

local function below(a, b)
  local am, as = string.match(a, '^(%d+)%-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)%-(%d+)$')
  am, bm = tonumber(am), tonumber(bm)
  return am < bm or (am == bm and tonumber(as) < tonumber(bs))
end
local fields, c = {'owner', 'epoch', 'until', 'lease', 'start', 'at', 'above', 'commit', 'reach', 'crashes', 'live', 'added', 'passed', 'paused', 'deleted'}, {}
local asked = {}
for i, f in ipairs(fields) do asked[i] = name .. ':' .. f end
for i, v in ipairs(call('HMGET', cursors, unpack(asked))) do c[fields[i]] = v end
local function reply(code, wait)
  local crashes, at, reach = string.match(c.crashes or '', '^(%d+) (%S+) (%S+)$')
  if at ~= c.at then crashes, reach = '0', c.at end
  return {code, c.epoch or '', c.commit or '', c.at or '', c.above or '', crashes, reach or '', c.start or '', c.live or '',
    c.lease or '', wait or 0, c.owner or '', c.passed or '', c.paused or ''}
end
local declared = call('HGET', scope, field)
if declared and string.sub(declared, 1, 1) == '-' then return reply('removed') end
if not c.epoch and c.deleted and lost then return reply('deleted') end
if not c.epoch and call('HEXISTS', group, 'lease') == 1 then return reply('group') end
local added, length, last = 0, 0, '0-0'
if call('EXISTS', log) == 1 then
  local info = call('XINFO', 'STREAM', log)
  for i = 1, #info, 2 do
    if info[i] == 'entries-added' then added = info[i + 1] end
    if info[i] == 'length' then length = info[i + 1] end
    if info[i] == 'last-generated-id' then last = info[i + 1] end
  end
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local code, forget = 'acquired', false
if not c.epoch then
  if after == '$' then after = last end
  c.lease, c.start, c.at, c.live = lease, start, after, last
  if lost then code, c.start, c.at, c.live = 'restarted', '0-0', '0-0', '0-0' end
  c.epoch, c.above, c.crashes, c.reach, forget = '0', '', '0', c.at, true
  if c.at == last then c.passed = added elseif c.at == '0-0' then c.passed = added - length end
elseif below(last, c.at) and not below(c.at, c.start) then -- another log
  code, c.start, c.at, c.live, c.above, c.reach, c.passed, forget = 'restarted', '0-0', '0-0', '0-0', '', '0-0', added - length, true
elseif added < tonumber(c.added) then -- another one, whose ids go on: what of it is through stays so
  c.passed = ''
end
local died = false
if code == 'acquired' and c.owner and c.owner ~= '' then
  if c.owner == member then
    code = 'owned'
  elseif tonumber(c['until']) > now then
    local wait = tonumber(c['until']) - now
    if wait > tonumber(c.lease) then -- the clock was set back since
      wait = tonumber(c.lease)
      call('HSET', cursors, name .. ':until', string.format('%.0f', now + wait))
    end
    return reply('standby', wait)
  else -- it was not handed over
    died = true
    if below(c.at, c.reach) then -- with something in its hands that it had read
      local times, at, reach = string.match(c.crashes, '^(%d+) (%S+) (%S+)$')
      if at ~= c.at then times, reach = 0, c.reach end
      c.crashes = string.format('%d %s %s', times + 1, c.at, below(reach, c.reach) and c.reach or reach)
    end
  end
end
for _, cmd in ipairs({{'HSET', cursors, 'f', ''}, {'HDEL', cursors, 'f'}, {'DEL', retry, open}, {'ZADD', retry, '0', 'm'}, {'ZRANGEBYSCORE', retry, '0', '1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
if forget then call('DEL', retry, open) end
if code ~= 'owned' then
  local held = call('ZRANGEBYSCORE', retry, string.format('%.0f', taken), '+inf', 'WITHSCORES')
  for i = 1, #held, 2 do
    local due = held[i + 1] - taken
    if due >= taken / 2 then due = due - taken / 2 end -- it was a suspect
    call('ZADD', retry, string.format('%.0f', died and due - taken or due), held[i])
  end
  c.reach = c.at
  c.owner, c.epoch, c.commit = member, string.format('%.0f', math.max(c.epoch + 1, now)), '0'
end
c['until'], c.added = string.format('%.0f', now + c.lease), added
for _, f in ipairs(fields) do
  if c[f] and f ~= 'deleted' then call('HSET', cursors, name .. ':' .. f, c[f]) end
end
if c.deleted then call('HDEL', cursors, name .. ':deleted') end
return reply(code)

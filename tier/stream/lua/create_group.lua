#!lua flags=allow-oom
-- Makes a group: absent -> present, at its declared start; deleted -> present, the same; lost -> present, where it was,
-- or at 0-0 when the log is another one than it was. With an empty log if there is none. A no-op when it is there
-- already. It runs on a full server, too: a consumer that starts there has to join before it can drain it.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] log      STREAM
-- KEYS[2] group    HASH
-- KEYS[3] scope    HASH
-- KEYS[4] owners   HASH    forgotten when the group is made: nobody may settle what an earlier one was given
-- KEYS[5] retry    ZSET    kept only when the group goes on: its entries are parked still
-- KEYS[6] open     HASH    of the parked ones like it
-- KEYS[7] cursors  HASH    with which it shares its names
-- ARGV[1] field    of the stream in the scope
-- ARGV[2] name     of the group
-- ARGV[3] after    id after which it reads; '$' for what is new
-- ARGV[4] start    the first message's id as declared, for packs that begin before it
-- ARGV[5] lease    ms
-- ARGV[6] lost     '1': the caller was a member of it, '0': it may never have been
-- Replies {code, lease ms, start, id after which it reads or ''}: created | exists | resumed (at its floor)
--   | restarted (at 0-0) | cursor (there is one of the name) | removed (the stream, by its verb) | deleted (the group, by its verb; lost = '1' only)
local log, group, scope, owners, retry, open, cursors = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local field, name, after, start, lease, lost = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] == '1'
local call = redis.call

local function below(a, b)
  local am, as = string.match(a, '^(%d+)%-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)%-(%d+)$')
  am, bm = tonumber(am), tonumber(bm)
  return am < bm or (am == bm and tonumber(as) < tonumber(bs))
end
local function top() -- of the log: entries ever added, last id
  local added, last = 0, '0-0'
  if call('EXISTS', log) == 1 then
    local info = call('XINFO', 'STREAM', log)
    for i = 1, #info, 2 do
      if info[i] == 'entries-added' then added = info[i + 1] end
      if info[i] == 'last-generated-id' then last = info[i + 1] end
    end
  end
  return added, last
end

local declared = call('HGET', scope, field)
if declared and string.sub(declared, 1, 1) == '-' then return {'removed', '', '', ''} end
if call('EXISTS', log) == 1 then
  for _, g in ipairs(call('XINFO', 'GROUPS', log)) do
    if g[2] == name then
      local state = call('HMGET', group, 'fresh', 'deleted')
      if lost and state[1] then -- made at what is new by one who did not know of the loss: what was written in between is due
        call('XGROUP', 'SETID', log, name, '0-0')
        call('HSET', group, 'lease', lease, 'start', '0-0', 'floor', '0-0')
        call('HDEL', group, 'fresh')
        call('DEL', owners)
        return {'restarted', lease, '0-0', '0-0'}
      end
      if state[2] then -- made again by another program
        call('HDEL', group, 'deleted')
        call('PERSIST', group)
      end
      call('HSETNX', group, 'lease', lease)
      call('HSETNX', group, 'start', '0-0') -- of another program: where it began is not known
      local row = call('HMGET', group, 'lease', 'start')
      return {'exists', row[1], row[2], ''}
    end
  end
end
if call('HEXISTS', cursors, name .. ':epoch') == 1 then return {'cursor', '', '', ''} end
local row = call('HMGET', group, 'lease', 'start', 'floor', 'added', 'deleted', 'paused')
local had_lease, had_start, floor, had_added, deleted, paused = row[1], row[2], row[3], row[4], row[5], row[6]
if deleted and lost then return {'deleted', '', '', ''} end
local code = 'created'
if not deleted and (floor or lost) then
  local added, last = top()
  lease, had_start = had_lease or lease, had_start or '0-0'
  local same = floor and added >= tonumber(had_added) and not below(last, floor)
  if same or floor and below(floor, had_start) then -- before its start: it was given nothing yet
    code, after, start = 'resumed', floor, had_start
  else -- all that there is was written after the loss
    code, after, start = 'restarted', '0-0', '0-0'
  end
end
local kept = {} -- what is open of the parked ones; what was pending comes again, whole
if code == 'resumed' then
  for _, id in ipairs(call('ZRANGE', retry, 0, -1)) do
    local held = call('HGET', open, id)
    if held then
      kept[#kept + 1] = id
      kept[#kept + 1] = held
    end
  end
end
-- Asked first, since a right that is lacking must not show halfway.
for name, cmd in pairs({['xinfo|stream'] = {'XINFO', 'STREAM', log}, del = {'DEL', group, owners, open}, hset = {'HSET', group, '-', '-'}, ['xgroup|setid'] = {'XGROUP', 'SETID', log, name, '0-0'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. name .. "' command")
  end
end
call('XGROUP', 'CREATE', log, name, after, 'MKSTREAM')
local added, last = top()
local fresh = after == '$'
if fresh then after = last end
call('DEL', group, owners, open)
if code ~= 'resumed' then call('DEL', retry) end
for i = 1, #kept, 4000 do call('HSET', open, unpack(kept, i, math.min(#kept, i + 3999))) end
call('HSET', group, 'lease', lease, 'start', start, 'floor', after, 'added', added)
if paused then call('HSET', group, 'paused', paused) end -- the server lost the group, nobody resumed it
if fresh and not deleted then call('HSET', group, 'fresh', '1') end
return {code, lease, start, after}

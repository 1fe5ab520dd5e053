#!lua
-- Redrives dead letters: dead letter -> parked, due now, its next attempt the first. What cannot be stays a dead letter.
-- Each letter goes in the step that parks its message, so a message is in one place whatever becomes of the caller.
-- KEYS[1] log      STREAM
-- KEYS[2] retry    ZSET
-- KEYS[3] open     HASH    '0' of an entry of which all is open; of one that is not parked a row tells nothing
-- KEYS[4] dead     STREAM
-- KEYS[5] cursors  HASH
-- ARGV[1] group    name, or that of a cursor
-- ARGV[2..] letters  ids, each once
-- Replies {'ok', {what became of each letter}} | {'group', {}} when there is no such group: redriven | gone, since there is
--   no such letter | trimmed, its entry was | busy, its entry is being handled | ahead, the group is still to be given its
--   entry | foreign, it is no letter of ours
local log, retry, open, dead, cursors = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group = ARGV[1]
local call = redis.call

local last
if call('EXISTS', log) == 1 then
  for _, g in ipairs(call('XINFO', 'GROUPS', log)) do
    if g[2] == group then last = g[8] end
  end
end
local owned = not last and call('HMGET', cursors, group .. ':at', group .. ':above')
if owned then last = owned[1] end
if not last then return {'group', {}} end
for _, cmd in ipairs({{'ZADD', retry, 'LT', '0', 'm'}, {'HSET', open, 'f', ''}, {'XDEL', dead, '0-1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local function parse(id)
  local ms, seq = string.match(id or '', '^(%d+)%-(%d+)$')
  if ms and #ms < 20 and #seq < 20 then return tonumber(ms), tonumber(seq) end
end
local last_ms, last_seq = parse(last)
local function look(fields) -- what becomes of a letter: code, entry, index or nil for the whole entry
  local id, index = fields[2], fields[3] == 'index' and fields[4] or nil
  local ms, seq = parse(id)
  if fields[1] ~= 'entry' or not ms or (index and not string.match(index, '^%d%d?%d?%d?$')) then return 'foreign' end
  if not call('XRANGE', log, id, id)[1] then return 'trimmed' end
  local through = owned and string.find(' ' .. owned[2] .. ' ', ' ' .. id .. ' ', 1, true)
  if not through and (ms > last_ms or (ms == last_ms and seq > last_seq)) then return 'ahead' end
  if owned then
    if tonumber(call('ZSCORE', retry, id) or 0) >= 4503599627370496 then return 'busy' end -- taken up, see due_owned.lua
  elseif call('XPENDING', log, group, id, id, 1)[1] then
    return 'busy'
  end
  return 'redriven', id, index
end
local function lists(row, index)
  for i in string.gmatch(row, ' (%d+) %d+ %d+') do
    if i == index then return true end
  end
end
local t = call('TIME')
local now = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
local codes = {}
for i = 2, #ARGV do
  local letter, code, id, index = call('XRANGE', dead, ARGV[i], ARGV[i])[1], 'gone', nil, nil
  if letter then code, id, index = look(letter[2]) end
  if id then
    local row, parked = call('HGET', open, id), call('ZSCORE', retry, id)
    call('ZADD', retry, 'LT', now, id) -- first, since it is refused if another program has made something else of the key
    if not index then
      row = '0'
    elseif not parked then
      row = '0 ' .. index .. ' 0 0'
    elseif row and string.find(row, ' ') and not lists(row, index) then
      row = string.gsub(row, ' %+%d+$', '') .. ' ' .. index .. ' 0 0' -- without what due_owned.lua counts
    end
    call('HSET', open, id, row or '0')
    call('XDEL', dead, ARGV[i])
  end
  codes[i - 1] = code
end
return {'ok', codes}

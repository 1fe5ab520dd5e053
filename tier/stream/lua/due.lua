#!lua flags=allow-oom
-- Takes parked entries up again that are due: parked -> leased, one more delivery. One that was trimmed meanwhile is
-- answered without fields; one that is pending, since the group went back and gave it out anew, is left to whom it was given.
-- Where much is due, half of what is taken is what stands first in the log, the other half what is due for longest.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- KEYS[3] retry    ZSET
-- KEYS[4] open     HASH
-- KEYS[5] terms    HASH  only looked at
-- ARGV[1] group    name
-- ARGV[2] member   name
-- ARGV[3] number   of the member
-- ARGV[4] want     entries to take at most
-- Replies {1 | 0 when the group is paused | -1 when fenced, ms until the next is due or -1, {id, deliveries, ...} taken or trimmed, entries that exist,
--   their rows in open or '', the server's time in ms}
local log, owners, retry, open, terms = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local group, member, number, want = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local call = redis.call

if call('HGET', owners, member) ~= number then return {-1, -1, {}, {}, {}, 0} end
if call('HGET', terms, 'paused') then return {0, -1, {}, {}, {}, 0} end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
-- Asked first, since a right that is lacking must not show halfway.
for name, cmd in pairs({zrem = {'ZREM', retry, 'm'}, xpending = {'XPENDING', log, group}, hget = {'HGET', open, 'f'}, hdel = {'HDEL', open, 'f'},
  xclaim = {'XCLAIM', log, group, member, '0', '0-1'}, zrange = {'ZRANGE', retry, '0', '0'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. name .. "' command")
  end
end
-- due begin: takes of what is due until nothing more is wanted; of much, half is what stands first in the log, since others
-- may be parked behind these, and the rest what is due for longest
local function take_due(due, want, take) -- {id, score, ...} by score; take is given both
  local function one(i)
    if want == 0 or not due[i] then return end
    take(due[i], due[i + 1])
    due[i], want = false, want - 1
  end
  if #due > 2 * want then
    local places = {}
    for i = 1, #due, 2 do
      local ms, seq = string.match(due[i], '^(%d+)%-(%d+)$')
      places[#places + 1] = {tonumber(ms), tonumber(seq), i}
    end
    table.sort(places, function(a, b) return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2]) end)
    for k = 1, math.ceil(want / 2) do one(places[k][3]) end
  end
  for i = 1, #due, 2 do one(i) end
end
-- due end
local taken, entries, rows = {}, {}, {}
local function give(id)
  call('ZREM', retry, id)
  if call('XPENDING', log, group, id, id, 1)[1] then return end
  local row = call('HGET', open, id) or '0'
  local deliveries = tonumber(string.match(row, '^%d+')) + 1
  local entry = call('XCLAIM', log, group, member, 0, id, 'RETRYCOUNT', deliveries, 'FORCE')[1]
  taken[#taken + 1] = id
  taken[#taken + 1] = deliveries
  if entry then
    entries[#entries + 1] = entry
    rows[#rows + 1] = row
  end
  if not entry or not string.find(row, ' ') then call('HDEL', open, id) end -- all of it is open, as of any pending entry
end
take_due(call('ZRANGEBYSCORE', retry, '-inf', string.format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, math.max(want, 1024)), want, give)
local next_due = call('ZRANGE', retry, 0, 0, 'WITHSCORES')[2]
local wait = next_due and math.max(0, tonumber(next_due) - now) or -1
return {1, wait, taken, entries, rows, now}

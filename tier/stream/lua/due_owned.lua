#!lua flags=allow-oom
-- Takes parked entries of a cursor up again that are due: parked -> taken up, one more delivery; until its owner settles
-- it, it stays in retry, 2^52 ms later. One that was trimmed meanwhile is gone, and not among the entries; one that the archive has is, without fields. Suspects, which
-- stand 2^52 ms earlier since their owner died with them, are taken one at a time, and stay 2^52 + 2^51 ms later. What an
-- owner before has parked further on than this one has read waits, as long as there is something to be read before it. Where
-- much is due, half of what is taken is what stands first in the log, the other half what is due for longest.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] log      STREAM
-- KEYS[2] cursors  HASH
-- KEYS[3] retry    ZSET
-- KEYS[4] open     HASH
-- ARGV[1] name     of the cursor
-- ARGV[2] member   who owns it
-- ARGV[3] epoch    of the ownership
-- ARGV[4] want     entries to take at most; 0 to learn when the next is due
-- ARGV[5] astray   '1': others may be taken up than the owner knows, by a call whose reply was lost, or that was made late; these are
--   answered again
-- ARGV[6] read     last entry that the owner has read
-- ARGV[7] archived up to there the owner has from the archive what the log lacks; '' of one that reads no archive
-- ARGV[8..] known  entries that it has taken up, if so
-- Replies as due.lua
local log, cursors, retry, open = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, member, epoch, want, astray, read, archived = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6], ARGV[7]
local call = redis.call
local taken, suspect = 4503599627370496, 4503599627370496 + 2251799813685248

local c = call('HMGET', cursors, name .. ':owner', name .. ':epoch', name .. ':paused')
if c[1] ~= member or c[2] ~= epoch then return {-1, -1, {}, {}, {}, 0} end
if c[3] then return {0, -1, {}, {}, {}, 0} end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for _, cmd in ipairs({{'ZADD', retry, '0', 'm'}, {'ZREM', retry, 'm'}, {'HSET', open, 'f', ''}, {'HGET', open, 'f'}, {'HDEL', open, 'f'},
  {'XRANGE', log, '0-1', '0-1'}, {'ZRANGEBYSCORE', retry, '0', '1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then -- a right that is lacking must not show after the first write
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local function below(a, b)
  local am, as = string.match(a, '^(%d+)%-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)%-(%d+)$')
  am, bm = tonumber(am), tonumber(bm)
  return am < bm or (am == bm and tonumber(as) < tonumber(bs))
end
local ids, entries, rows = {}, {}, {}
local function give(id, score) -- and where it stands from now on; nil: it is taken up already
  local entry = call('XRANGE', log, id, id)[1] or (archived ~= '' and not below(archived, id) and {id, {}})
  local row = call('HGET', open, id) or '0'
  local was, times = string.match(row, '^(.*) %+(%d+)$') -- taken up so often since it was parked
  if not was then was, times = row, 0 end
  if score then times = times + 1 end
  ids[#ids + 1] = id
  ids[#ids + 1] = string.match(was, '^%d+') + times
  if not entry then
    call('ZREM', retry, id)
    call('HDEL', open, id)
    return
  end
  if score then
    call('ZADD', retry, string.format('%.0f', score), id)
    call('HSET', open, id, was .. ' +' .. times)
  end
  entries[#entries + 1] = entry
  rows[#rows + 1] = was
end
local stray = false -- there is one that this call does not give out
if astray then
  local known = {}
  for i = 8, #ARGV do known[ARGV[i]] = true end
  for _, id in ipairs(call('ZRANGEBYSCORE', retry, string.format('%.0f', taken), '+inf')) do
    if want > 0 and not known[id] then
      give(id)
      want = want - 1
    elseif not known[id] then
      stray = true
    end
  end
end
local next_read = call('XRANGE', log, '(' .. read, '+', 'COUNT', 1)[1]
if archived ~= '' and below(read, archived) then -- what it reads next may be in the archive
  local first = call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
  if not first or below(read, first[1]) then next_read = {read} end
end
local function find(from, to, most) -- entries and scores of what does not wait; and the first score of what does
  local found, ahead, at, size = {}, nil, 0, math.max(64, most)
  repeat
    local page = call('ZRANGEBYSCORE', retry, from, to, 'WITHSCORES', 'LIMIT', at, size)
    for i = 1, #page, 2 do
      if next_read and below(next_read[1], page[i]) then
        ahead = ahead or page[i + 1]
      elseif #found < 2 * most then
        found[#found + 1] = page[i]
        found[#found + 1] = page[i + 1]
      end
    end
    at = at + size
  until #found == 2 * most or #page == 0
  return found, ahead
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
local alone = not call('ZRANGEBYSCORE', retry, string.format('%.0f', suspect), '+inf', 'LIMIT', 0, 1)[1]
if want > 0 and alone then
  local first = find('-inf', '(0', 1)
  if first[1] then
    give(first[1], first[2] + taken + suspect)
    want = want - 1
    alone = false
  end
end
if want > 0 then
  take_due(find(0, string.format('%.0f', now), math.max(want, 1024)), want, function(id, score) give(id, score + taken) end)
end
local wait, soon = -1, 50 -- after which another look is worth it, at what is to come alone, or not yet
local function within(ms) wait = wait < 0 and ms or math.min(wait, ms) end
local next_due, ahead = find(0, string.format('(%.0f', taken), 1)
if next_due[1] then within(math.max(0, next_due[2] - now)) end
if ahead then within(math.max(soon, ahead - now)) end
if stray then within(0) end
local suspects, unread = find('-inf', '(0', 1)
if suspects[1] then within(alone and 0 or soon) end
if unread then within(soon) end
return {1, wait, ids, entries, rows, now}

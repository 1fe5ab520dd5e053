#!lua flags=allow-oom
-- Audits jobs: each is in the one place that its row says, or there is nothing of it.
-- KEYS[1] jobs     HASH
-- KEYS[2] bodies   HASH
-- KEYS[3] due      ZSET
-- KEYS[4] dead     ZSET
-- KEYS[5] waiting  ZSET
-- KEYS[6] notes    HASH
-- KEYS[7..] logs   STREAM  of lanes
-- ARGV[1] count    of lanes
-- ARGV[2..]        names of the lanes; ids of the jobs
-- Replies for each job: '' when all is well or there is no such job | '?<lane>' of a lane that was not declared | what is broken
local jobs, bodies, due, dead, waiting, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local count = tonumber(ARGV[1])
local call = redis.call

local declared = {}
for i = 7, #KEYS do declared[ARGV[i - 5]] = i end
local function broken(id)
  local row = call('HGET', jobs, id)
  local body, waits, died, parent = call('HEXISTS', bodies, id) == 1, call('ZSCORE', due, id), call('ZSCORE', dead, id), call('ZSCORE', waiting, id)
  if not row then
    if body then return 'has a body and no row' end
    if waits then return 'is due and has no row' end
    if died then return 'is dead and has no row' end
    if parent then return 'waits for children and has no row' end
    if call('HEXISTS', notes, id) == 1 then return 'has notes and no row' end
    return ''
  end
  local letter, ms, name = string.match(row, '^([srwd]) (%d+) %d+ (.+)$')
  if letter then
    if not body then return 'has no body: ' .. row end
    local at = {s = waits, r = waits, w = parent, d = died}
    if not at[letter] or (waits and 1 or 0) + (died and 1 or 0) + (parent and 1 or 0) > 1 then return 'is not where its row says: ' .. row end
    if letter ~= 'w' and tonumber(at[letter]) ~= tonumber(ms) then return 'is due, or died, at another time than its row says: ' .. row end
    return ''
  end
  local entry, lane = string.match(row, '^(%d+%-%d+) (.+)$')
  if not entry then return 'has a row that is none: ' .. row end
  if body or waits or died or parent then return 'is in its lane, and elsewhere: ' .. row end
  if not declared[lane] then return '?' .. lane end
  local log = KEYS[declared[lane]]
  local held = call('XRANGE', log, entry, entry)[1]
  if not held then return 'is not in its lane: ' .. row end
  for k = 1, #held[2], 2 do
    if held[2][k] == 'j' and held[2][k + 1] == id then return '' end
  end
  return 'has the entry of another: ' .. row
end
local out = {}
for i = 2 + count, #ARGV do out[#out + 1] = broken(ARGV[i]) end
return out

#!lua flags=allow-oom
-- Takes over jobs whose lease has ended: active, idle past the lease -> active with the caller, one more delivery. Each other
-- member that loses a job gets another number, which fences it. Lanes are looked at that are due for it, of those declared,
-- page by page; a lane that is through says when to look again, and loses the consumers that have left. A suspect, a job that
-- a second worker let go of, may be what ends them: it is taken alone.
-- KEYS[1] workers  HASH
-- KEYS[2] queue    HASH  only looked at
-- KEYS[3] ring     ZSET
-- KEYS[4] terms    HASH  of lanes, only looked at
-- KEYS[5] leased   ZSET
-- KEYS[6..] logs   STREAM  of lanes
-- ARGV[1] member   name
-- ARGV[2] number   of the member
-- ARGV[3] lease    ms
-- ARGV[4] want     jobs to take at most
-- ARGV[5] suspects that may be among them
-- ARGV[6] page     active jobs to look at
-- ARGV[7] lanes    due ones to answer at most
-- ARGV[8..]        for each lane its name, and '-' or the '(' form of the last entry looked at
-- Replies {1 | 0 when the queue is paused | -1 when fenced, {{number of the lane, {entry, deliveries, ...}, entries that exist}, ...},
--   number of the lane that is not through or 0, the last entry looked at in it, lanes that are due, ms until the first lane is or -1, suspects left}
local workers, queue, ring, terms, leased = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local member, number, lease, want, suspects = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local page, lanes = tonumber(ARGV[6]), ARGV[7]
local call = redis.call

if call('HGET', workers, member) ~= number then return {-1, {}, 0, '', {}, -1, 0} end
if call('HGET', queue, 'paused') then return {0, {}, 0, '', {}, -1, 0} end
for i = 6, #KEYS do
  if call('XLEN', KEYS[i]) > 0 then call('XPENDING', KEYS[i], 'w') end -- a group that is lacking must not show halfway
end
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'XCLAIM', ring, 'w', member, '0', '0-1'}, {'ZREM', leased, 'm'}, {'ZADD', leased, '0', 'm'}, {'XINFO', 'CONSUMERS', ring, 'w'}, {'HEXISTS', workers, 'f'},
  {'HINCRBY', workers, 'f', '1'}, {'XGROUP', 'DELCONSUMER', ring, 'w', 'c'}, {'ZRANGE', leased, '0', '0'}, {'ZRANGEBYSCORE', leased, '0', '0'}, {'XPENDING', ring, 'w'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
-- Looks at a page of a lane. Returns what is taken; where it stopped, or nil at the end; in how many ms to look again.
local losers, suspected = {}, 0
local function look(log, from)
  local taken, idlest, passed, at = {}, 0, 0, from
  for _, row in ipairs(call('XPENDING', log, 'w', from, '+', page)) do
    if want == 0 then return taken, at end
    page, at = page - 1, '(' .. row[1]
    local suspect = row[4] >= 2
    if row[3] >= lease and suspect and suspects == 0 then
      passed = passed + 1
    elseif row[3] >= lease then
      if suspect then suspects = suspects - 1 end
      want = want - 1
      taken[#taken + 1] = row[1]
      taken[#taken + 1] = row[4] + 1
      if row[2] ~= member then losers[row[2]] = true end
    else
      idlest = math.max(idlest, row[3])
    end
  end
  if page == 0 then return taken, at end
  suspected = suspected + passed
  local again = from == '-' and lease - idlest or math.min(lease - idlest, 2000)
  return taken, nil, passed > 0 and 250 or math.max(1, again)
end
local out, stopped, last = {}, 0, ''
for i = 6, #KEYS do
  local log = KEYS[i]
  local name, from = ARGV[8 + 2 * (i - 6)], ARGV[9 + 2 * (i - 6)]
  local score = call('ZSCORE', leased, name)
  if stopped == 0 and score and (from ~= '-' or tonumber(score) <= now) then
    if call('XLEN', log) == 0 then
      call('ZREM', leased, name)
    else
      local taken, at, again = look(log, from)
      if #taken > 0 then
        local ids = {}
        for k = 1, #taken, 2 do ids[#ids + 1] = taken[k] end
        out[#out + 1] = {i - 5, taken, call('XCLAIM', log, 'w', member, 0, unpack(ids))}
      end
      if at then
        stopped, last = i - 5, at
      else
        local pending = call('XPENDING', log, 'w')[1]
        if pending == 0 then
          call('ZREM', leased, name)
        else
          call('ZADD', leased, string.format('%.0f', now + again), name)
        end
        local ceiling, paused = string.match(call('HGET', terms, name) or '1 0 0', '^%S+ (%d+) (%d+)')
        if paused == '0' and call('XLEN', log) > pending and (ceiling == '0' or pending < tonumber(ceiling)) then
          call('ZADD', ring, 'NX', call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0', name)
        end
        for _, c in ipairs(call('XINFO', 'CONSUMERS', log, 'w')) do
          if c[4] == 0 and call('HEXISTS', workers, c[2]) == 0 then call('XGROUP', 'DELCONSUMER', log, 'w', c[2]) end
        end
      end
    end
  end
end
for loser in pairs(losers) do
  if call('HEXISTS', workers, loser) == 1 then call('HINCRBY', workers, loser, 1) end
end
local first = call('ZRANGE', leased, 0, 0, 'WITHSCORES')[2]
return {1, out, stopped, last, call('ZRANGEBYSCORE', leased, '-inf', string.format('%.0f', now), 'LIMIT', 0, lanes), first and math.max(0, first - now) or -1, suspected}

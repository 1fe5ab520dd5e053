#!lua
-- Enqueues jobs: absent -> ready in their lanes, or scheduled; each call of a client once, however often it is sent. A job
-- that is there already stays as it is.
-- KEYS[1] calls    STRING  'number outcomes' of the producer's last call
-- KEYS[2] jobs     HASH
-- KEYS[3] bodies   HASH
-- KEYS[4] due      ZSET
-- KEYS[5] ring     ZSET
-- KEYS[6] terms    HASH  of lanes, only looked at
-- KEYS[7] workers  HASH  only looked at
-- KEYS[8] wake     LIST
-- KEYS[9..] logs   STREAM  of the lanes
-- ARGV[1] number   of the producer's call: the last + 1, or the last again
-- ARGV[2] ttl      ms that calls lives
-- ARGV[3] count    of lanes
-- ARGV[4..]        names of the lanes; for each job: number of its lane, id, '' | '+ms' from now | unix ms, message, options
-- Replies {'ok' | 'dup' (an earlier sending's) | 'unknown' (not the number after the last), outcomes: '<place>=<what>;' for
--   each job that was not enqueued: duplicate}
local calls, jobs, bodies, due, ring, terms, workers, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local number, ttl, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local first_lane, first_job, args = 4, 4 + count, 5
local call = redis.call

local last, answered = string.match(call('GET', calls) or '0 ', '^(%d+) (.*)$')
if number == tonumber(last) then
  call('SET', calls, last .. ' ' .. answered, 'KEEPTTL') -- for who waits for replicas: they wait for what their connection wrote
  return {'dup', answered}
end
if number ~= last + 1 then return {'unknown', ''} end
local ids = {}
for i = first_job, #ARGV, args do ids[#ids + 1] = ARGV[i + 1] end
local there = call('HMGET', jobs, unpack(ids))
local new = {} -- of each lane: 0 when it is new
for i = 9, #KEYS do new[i] = call('XLEN', KEYS[i]) == 0 and call('EXISTS', KEYS[i]) == 0 end
local head = call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0'
local first_due = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
local paused = {}
for i, row in ipairs(call('HMGET', terms, unpack(ARGV, first_lane, first_job - 1))) do
  paused[i] = row and string.match(row, '^%S+ %d+ (%d+)') ~= '0'
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

if number == 1 then -- asked once a producer: a right that is lacking must not show after the first write
  local log = KEYS[9]
  for _, cmd in ipairs({{'XGROUP', 'CREATE', log, 'w', '0'}, {'XADD', log, '*', 'j', ''}, {'HSET', jobs, 'f', ''}, {'ZADD', due, '0', 'm'}, {'HLEN', workers}, {'LLEN', wake},
    {'RPUSH', wake, '1'}, {'SET', calls, ''}}) do
    if not redis.acl_check_cmd(unpack(cmd)) then
      return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
    end
  end
end
local seen, outcomes, rows, bells, filled = {}, {}, {}, 0, {}
for k, id in ipairs(ids) do
  local i = first_job + (k - 1) * args
  local lane, at, message, options = tonumber(ARGV[i]), ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local name = ARGV[first_lane + lane - 1]
  local ms = string.sub(at, 1, 1) == '+' and now + tonumber(string.sub(at, 2)) or tonumber(at)
  if there[k] or seen[id] then
    outcomes[#outcomes + 1] = (k - 1) .. '=duplicate;'
  elseif ms and ms > now then
    local text = string.format('%.0f', ms)
    call('HSET', bodies, id, cmsgpack.pack({message, options, '', '', ''}))
    call('ZADD', due, text, id)
    rows[#rows + 1] = id
    rows[#rows + 1] = 's ' .. text .. ' 0 ' .. name
    if not first_due or ms < tonumber(first_due) then first_due, bells = text, bells + 1 end
  else
    local log = KEYS[8 + lane]
    if new[8 + lane] then
      call('XGROUP', 'CREATE', log, 'w', '0', 'MKSTREAM')
      new[8 + lane] = false
    end
    local entry = options == '' and call('XADD', log, '*', 'j', id, 'm', message) or call('XADD', log, '*', 'j', id, 'm', message, 'o', options)
    rows[#rows + 1] = id
    rows[#rows + 1] = entry .. ' ' .. name
    filled[lane] = name
    if not paused[lane] then bells = bells + 1 end
  end
  seen[id] = true
end
for i = 1, #rows, 4000 do call('HSET', jobs, unpack(rows, i, math.min(#rows, i + 3999))) end
for lane, name in pairs(filled) do
  if not paused[lane] then call('ZADD', ring, 'NX', head, name) end
end
bells = math.min(bells, math.floor(call('HLEN', workers) / 2) - call('LLEN', wake))
for _ = 1, bells do call('RPUSH', wake, '1') end
local answer = table.concat(outcomes)
call('SET', calls, string.format('%.0f ', number) .. answer, 'PX', ttl)
return {'ok', answer}

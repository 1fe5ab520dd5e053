#!lua
-- Enqueues jobs: absent -> ready in their lanes, or scheduled; each call of a client once, however often it is sent. A job
-- that is there already stays as it is. Of a unique key there is one job: another one is answered with it, or replaces what it
-- carries; one that is active runs on, and the other after it.
-- KEYS[1] calls    STRING  'number outcomes' of the producer's last call
-- KEYS[2] jobs     HASH
-- KEYS[3] bodies   HASH
-- KEYS[4] due      ZSET
-- KEYS[5] ring     ZSET
-- KEYS[6] terms    HASH  of lanes, only looked at
-- KEYS[7] workers  HASH  only looked at
-- KEYS[8] wake     LIST
-- KEYS[9] unique   HASH
-- KEYS[10..] logs  STREAM  of the lanes
-- ARGV[1] number   of the producer's call: the last + 1, or the last again
-- ARGV[2] ttl      ms that calls lives
-- ARGV[3] count    of lanes
-- ARGV[4..]        names of the lanes; for each job: number of its lane, id, '' | '+ms' from now | unix ms, message, options,
--   '' | 's', 'd' or 'p' (until it is started, done, for a period) and its unique key, '' | 'k', 'x' or 'r' (keep, refuse,
--   replace the one that is there) and the period in ms
-- Replies {'ok' | 'dup' (an earlier sending's) | 'unknown' (not the number after the last), outcomes: '<place>=<what>;' for
--   each job that was not enqueued: duplicate | kept, taken, replaced <job that is there> | elsewhere <lane of that one>, which
--   was not declared, or which a call before this one has emptied}
local calls, jobs, bodies, due, ring, terms, workers, wake, unique = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local number, ttl, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local first_lane, first_job, args = 4, 4 + count, 7
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
for i = 10, #KEYS do new[i] = call('XLEN', KEYS[i]) == 0 and call('EXISTS', KEYS[i]) == 0 end
local head = call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0'
local first_due = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
local paused = {}
for i, row in ipairs(call('HMGET', terms, unpack(ARGV, first_lane, first_job - 1))) do
  paused[i] = row and string.match(row, '^%S+ %d+ (%d+)') ~= '0'
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

if number == 1 then -- asked once a producer: a right that is lacking must not show after the first write
  local log = KEYS[10]
  for _, cmd in ipairs({{'XGROUP', 'CREATE', log, 'w', '0'}, {'XADD', log, '*', 'j', ''}, {'HSET', jobs, 'f', ''}, {'ZADD', due, '0', 'm'}, {'HLEN', workers}, {'LLEN', wake},
    {'RPUSH', wake, '1'}, {'SET', calls, ''}, {'HGET', unique, 'f'}, {'HEXISTS', jobs, 'f'}, {'HGET', bodies, 'f'}, {'XPENDING', log, 'w'}, {'XDEL', log, '0-1'}}) do
    if not redis.acl_check_cmd(unpack(cmd)) then
      return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
    end
  end
end
local seen, outcomes, rows, bells, filled = {}, {}, {}, 0, {}
local numbers = {}
for i = 1, count do numbers[ARGV[first_lane + i - 1]] = i end
local function add(lane, id, message, options, key)
  local log = KEYS[9 + lane]
  if new[9 + lane] then
    call('XGROUP', 'CREATE', log, 'w', '0', 'MKSTREAM')
    new[9 + lane] = false
  end
  filled[lane] = ARGV[first_lane + lane - 1]
  if not paused[lane] then bells = bells + 1 end
  local more = {}
  if options ~= '' then more = {'o', options} end
  if key ~= '' then
    more[#more + 1] = 'u'
    more[#more + 1] = key
  end
  return call('XADD', log, '*', 'j', id, 'm', message, unpack(more)) .. ' ' .. filled[lane]
end
local function schedule(id, ms, message, options, key, attempts, name)
  local text = string.format('%.0f', ms)
  call('HSET', bodies, id, cmsgpack.pack({message, options, key, '', ''}))
  call('ZADD', due, text, id)
  if not first_due or ms < tonumber(first_due) then first_due, bells = text, bells + 1 end
  return 's ' .. text .. ' ' .. attempts .. ' ' .. name
end
-- Who has a unique key, or nil.
local function holder(key)
  local id, mode, till = string.match(call('HGET', unique, key) or '', '^(%S+) (%a) (%d+)$')
  if not id or mode == 'p' and tonumber(till) <= now then return nil end
  return (mode == 'p' or seen[id] or call('HEXISTS', jobs, id) == 1) and id or nil
end
-- Replaces what a job carries that is not active. Returns what came of it, or nil when it is active, or done.
local function replace(id, ms, message, options, key)
  local row = seen[id] or call('HGET', jobs, id)
  local attempts, name = string.match(row or '', '^[sr] %d+ (%d+) (.*)$')
  local written
  if attempts then
    written = schedule(id, ms or now, message, options, key, attempts, name)
  else
    local entry, lane = string.match(row or '', '^(%d+%-%d+) (.*)$')
    if not entry then return nil end
    if not numbers[lane] then return 'elsewhere ' .. lane end
    local log = KEYS[9 + numbers[lane]]
    if call('XPENDING', log, 'w', entry, entry, 1)[1] then return nil end
    written = add(numbers[lane], id, message, options, key) -- before the lane may be empty
    call('XDEL', log, entry)
  end
  seen[id] = written
  return 'replaced ' .. id
end
for k, id in ipairs(ids) do
  local i = first_job + (k - 1) * args
  local lane, at, message, options, key, policy = tonumber(ARGV[i]), ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6]
  local ms = string.sub(at, 1, 1) == '+' and now + tonumber(string.sub(at, 2)) or tonumber(at)
  local what
  if there[k] or seen[id] then
    what = 'duplicate'
  elseif key ~= '' then
    local other = holder(string.sub(key, 2))
    local how = string.sub(policy, 1, 1)
    if other then
      if how == 'k' then what = 'kept ' .. other end
      if how == 'x' then what = 'taken ' .. other end
      if how == 'r' then what = replace(other, ms, message, options, key) end
    end
  end
  if what then
    outcomes[#outcomes + 1] = (k - 1) .. '=' .. what .. ';'
  else
    local row
    if ms and ms > now then
      row = schedule(id, ms, message, options, key, 0, ARGV[first_lane + lane - 1])
    else
      row = add(lane, id, message, options, key)
    end
    seen[id] = row
    if key ~= '' then
      local till = string.format('%.0f', now + (tonumber(string.sub(policy, 2)) or 0))
      call('HSET', unique, string.sub(key, 2), id .. ' ' .. string.sub(key, 1, 1) .. ' ' .. till)
    end
  end
end
for id, row in pairs(seen) do
  rows[#rows + 1] = id
  rows[#rows + 1] = row
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

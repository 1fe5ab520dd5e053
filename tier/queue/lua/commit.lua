#!lua
-- Ends deliveries of jobs with all that comes of them: active -> done, with a result; scheduled again; or dead. A job that is
-- not where the caller has it is left alone: an earlier sending ended it, or it is another's. One that is cancelled is not
-- scheduled again.
-- KEYS[1] workers  HASH  only looked at
-- KEYS[2] jobs     HASH
-- KEYS[3] ring     ZSET
-- KEYS[4] terms    HASH  of lanes, only looked at
-- KEYS[5] leased   ZSET
-- KEYS[6] wake     LIST
-- KEYS[7] bodies   HASH
-- KEYS[8] due      ZSET
-- KEYS[9] dead     ZSET
-- KEYS[10] unique  HASH
-- KEYS[11] told    HASH  active job -> why it is cancelled
-- KEYS[12..] keys  STREAM  of lanes, then LIST of results
-- ARGV[1] member   name
-- ARGV[2] number   of the member
-- ARGV[3..]        for each job: number of its lane's key, name of the lane, entry, id, attempts that count, then
--   'done', 0, result | 'again', ms until it is due, error | 'dead', 0, error; then ms to keep what it came to, and the number of its
--   key, or 0 and 0
-- Replies how many were ended, or -1 when fenced
local workers, jobs, ring, terms, leased, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local bodies, due, dead, unique, told = KEYS[7], KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local member, number = ARGV[1], ARGV[2]
local args = 10
local call = redis.call

if call('HGET', workers, member) ~= number then return -1 end
for i = 3, #ARGV, args do
  local log = KEYS[11 + ARGV[i]]
  call('XLEN', log)
end
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'HSET', bodies, 'f', ''}, {'HDEL', jobs, 'f'}, {'HDEL', unique, 'f'}, {'PEXPIRE', dead, '1'}, {'ZADD', due, '0', 'm'}, {'XDEL', ring, '0-1'}, {'DEL', ring},
  {'ZREM', leased, 'm'}, {'XPENDING', ring, 'w'}, {'LLEN', wake}, {'HLEN', workers}, {'RPUSH', wake, '1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
-- vacate begin: what a lane that jobs have left is after that: gone, or with room below its ceiling.
local function vacate(log, name)
  local waiting = call('XLEN', log)
  if waiting == 0 then
    call('DEL', log)
    call('ZREM', leased, name)
    return
  end
  local ceiling, paused = string.match(call('HGET', terms, name) or '', '^%S+ (%d+) (%d+)')
  if (ceiling or '0') ~= '0' and paused == '0' and waiting > call('XPENDING', log, 'w')[1] then
    call('ZADD', ring, 'NX', call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0', name)
    if call('LLEN', wake) < math.floor(call('HLEN', workers) / 2) then call('RPUSH', wake, '1') end
  end
end
-- vacate end
-- What a job holds outside a lane: [message, options, unique key, parent, why it failed last].
local function body(entry, reason)
  local held = {m = '', o = '', u = '', p = ''}
  for k = 1, #entry[2], 2 do held[entry[2][k]] = entry[2][k + 1] end
  return cmsgpack.pack({held.m, held.o, held.u, held.p, reason})
end
-- Frees the unique key of a job that has it until it has ended.
local function free(fields, id)
  for k = 5, #fields, 2 do
    local key = fields[k] == 'u' and string.match(fields[k + 1], '^[sd](.*)$')
    if key and string.match(call('HGET', unique, key) or '', '^%S+') == id then call('HDEL', unique, key) end
  end
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local first_due, ended = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2], 0
for i = 3, #ARGV, args do
  local log = KEYS[11 + ARGV[i]]
  local name, entry, id, attempts, what, ms, text, keep, at = unpack(ARGV, i + 1, i + 9)
  local held = call('HGET', jobs, id) == entry .. ' ' .. name and call('XRANGE', log, entry, entry)[1]
  if held and call('XACK', log, 'w', entry) == 1 then
    ended = ended + 1
    local cancelled = call('HGET', told, id)
    if cancelled then
      call('HDEL', told, id)
      if what == 'again' then what, ms, text = 'dead', 0, 'cancelled: ' .. cancelled end
    end
    if what ~= 'again' then free(held[2], id) end
    if what == 'done' then
      call('HDEL', jobs, id)
    else
      call('HSET', bodies, id, body(held, text))
      local when = string.format('%.0f', now + ms)
      if what == 'again' then
        call('ZADD', due, when, id)
        call('HSET', jobs, id, 'r ' .. when .. ' ' .. attempts .. ' ' .. name)
      else
        call('ZADD', dead, when, id)
        call('HSET', jobs, id, 'd ' .. when .. ' ' .. attempts .. ' ' .. name)
      end
    end
    if at ~= '0' and what ~= 'again' then
      local result = KEYS[11 + at]
      call('DEL', result)
      call('RPUSH', result, what .. ' ' .. text)
      call('PEXPIRE', result, keep)
    end
    call('XDEL', log, entry)
    vacate(log, name)
  end
end
local next_due = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
if next_due and next_due ~= first_due and call('LLEN', wake) < math.floor(call('HLEN', workers) / 2) then call('RPUSH', wake, '1') end
return ended

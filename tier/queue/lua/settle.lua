#!lua flags=allow-oom
-- Settles jobs that have no result: active -> done. A job that is not where the caller has it is left alone: it was settled by
-- an earlier sending, or is another's. An empty lane is deleted.
-- KEYS[1] workers  HASH  only looked at
-- KEYS[2] jobs     HASH
-- KEYS[3] ring     ZSET
-- KEYS[4] terms    HASH  of lanes, only looked at
-- KEYS[5] leased   ZSET
-- KEYS[6] wake     LIST
-- KEYS[7] told     HASH  active job -> why it is cancelled
-- KEYS[8..] logs   STREAM  of lanes
-- ARGV[1] member   name
-- ARGV[2] number   of the member
-- ARGV[3..]        for each lane its name, how many jobs, their entries, their ids
-- Replies how many were settled, or -1 when fenced
local workers, jobs, ring, terms, leased, wake, told = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local member, number = ARGV[1], ARGV[2]
local call = redis.call

if call('HGET', workers, member) ~= number then return -1 end
for i = 8, #KEYS do call('XLEN', KEYS[i]) end
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'XDEL', ring, '0-1'}, {'HDEL', jobs, 'f'}, {'DEL', ring}, {'ZREM', leased, 'm'}, {'XPENDING', ring, 'w'}, {'ZADD', ring, '0', 'm'},
  {'ZRANGE', ring, '0', '0'}, {'LLEN', wake}, {'HLEN', workers}, {'RPUSH', wake, '1'}}) do
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
local settled, at = 0, 3
for i = 8, #KEYS do
  local log = KEYS[i]
  local name, n = ARGV[at], tonumber(ARGV[at + 1])
  local rows = call('HMGET', jobs, unpack(ARGV, at + 2 + n, at + 1 + 2 * n))
  local entries, ids = {}, {}
  for k = 1, n do
    if rows[k] == ARGV[at + 1 + k] .. ' ' .. name then
      entries[#entries + 1] = ARGV[at + 1 + k]
      ids[#ids + 1] = ARGV[at + 1 + n + k]
    end
  end
  if #ids > 0 then
    settled = settled + call('XACK', log, 'w', unpack(entries))
    call('XDEL', log, unpack(entries))
    call('HDEL', jobs, unpack(ids))
    call('HDEL', told, unpack(ids))
    vacate(log, name)
  end
  at = at + 2 + 2 * n
end
return settled

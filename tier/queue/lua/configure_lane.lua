#!lua flags=allow-oom
-- Changes the terms of a lane: its weight, its ceiling, whether it is paused, its rate. One that may hand out has its turn again; one
-- that may not leaves the ring when it has its turn.
-- KEYS[1] terms    HASH  of lanes
-- KEYS[2] ring     ZSET
-- KEYS[3] workers  HASH  only looked at
-- KEYS[4] wake     LIST
-- KEYS[5] log      STREAM  of the lane, only looked at
-- ARGV[1] name     of the lane
-- ARGV[2] weight   above 0, or '' to leave it
-- ARGV[3] ceiling  of active jobs, 0 for none, or '' to leave it
-- ARGV[4] paused   '1', '0', or '' to leave it
-- ARGV[5] rate     '<jobs> <ms>', '0' for none, or '' to leave it
-- Replies {weight, ceiling, unix ms since when it is paused or '0', rate or ''}
local terms, ring, workers, wake, log = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local name, weight, ceiling, paused, rate = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local call = redis.call

local w, c, p, r = string.match(call('HGET', terms, name) or '1 0 0', '^(%S+) (%d+) (%d+) ?(.*)$')
local waiting = call('EXISTS', log) == 1 and call('XLEN', log) - call('XPENDING', log, 'w')[1] or 0
local head = call('ZRANGE', ring, 0, 0, 'WITHSCORES')[2] or '0'
local bells = math.min(waiting, math.floor(call('HLEN', workers) / 2) - call('LLEN', wake))
local t = call('TIME')
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'HSET', terms, 'f', ''}, {'HDEL', terms, 'f'}, {'ZADD', ring, '0', 'm'}, {'RPUSH', wake, '1'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
if weight ~= '' then w = weight end
if ceiling ~= '' then c = ceiling end
if paused == '0' then p = '0' end
if paused == '1' and p == '0' then p = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)) end
if rate ~= '' then r = rate == '0' and '' or rate end
local row = w .. ' ' .. c .. ' ' .. p .. (r ~= '' and ' ' .. r or '')
if row ~= '1 0 0' then call('HSET', terms, name, row) else call('HDEL', terms, name) end
if p == '0' and waiting > 0 then
  call('ZADD', ring, 'NX', head, name)
  for _ = 1, bells do call('RPUSH', wake, '1') end
end
return {w, c, p, r}

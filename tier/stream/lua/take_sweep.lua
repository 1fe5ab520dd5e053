#!lua flags=allow-oom
-- Takes the right to trim in a scope: free -> held, with a higher epoch; held by the caller -> held, for another lease. It runs
-- on a full server, which trims may drain.
-- KEYS[1] sweeper  HASH
-- ARGV[1] owner    who asks
-- ARGV[2] lease    ms
-- Replies {'held', epoch, 0} | {'standby', '', ms until it is free}
local sweeper, owner, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local call = redis.call

local row = call('HMGET', sweeper, 'owner', 'epoch', 'until')
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ends, epoch = tonumber(row[3] or 0), row[2] or '0'
if ends > now and row[1] ~= owner then
  if ends > now + lease then -- the clock was set back since, or the lease is another's
    ends = now + lease
    call('HSET', sweeper, 'until', string.format('%.0f', ends))
  end
  return {'standby', '', ends - now}
end
if ends <= now or row[1] ~= owner then epoch = string.format('%.0f', math.max(epoch + 1, now)) end
call('HSET', sweeper, 'owner', owner, 'epoch', epoch, 'until', string.format('%.0f', now + lease))
return {'held', epoch, 0}

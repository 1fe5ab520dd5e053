#!lua flags=allow-oom
-- Declares what of a stream may go: any policy -> another, or none. What writers compare, the stream's own field, stays as it
-- is. It runs on a full server, which it may help to drain.
-- KEYS[1] scope   HASH
-- ARGV[1] stream  field of the stream
-- ARGV[2] field   of its policy
-- ARGV[3] policy  in words; '' is none
-- Replies 'ok' | 'absent': no such stream | 'removed'
local scope, stream, field, policy = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local call = redis.call

local declared = call('HGET', scope, stream)
if not declared then return 'absent' end
if string.sub(declared, 1, 1) == '-' then return 'removed' end
if policy == '' then
  call('HDEL', scope, field)
else
  call('HSET', scope, field, policy)
end
return 'ok'

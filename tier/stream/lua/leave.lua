#!lua flags=allow-oom
-- A member leaves: member that holds nothing -> gone.
-- KEYS[1] log      STREAM
-- KEYS[2] owners   HASH
-- ARGV[1] group    name
-- ARGV[2] member   name
-- Replies 1 | 0 when it holds entries, which others will take over first
local log, owners = KEYS[1], KEYS[2]
local group, member = ARGV[1], ARGV[2]

if redis.call('XPENDING', log, group, '-', '+', 1, member)[1] then return 0 end
if not redis.acl_check_cmd('HDEL', owners, member) then -- asked first, since it must not show halfway
  return redis.error_reply("NOPERM the user has no permissions to run the 'hdel' command")
end
redis.call('XGROUP', 'DELCONSUMER', log, group, member)
redis.call('HDEL', owners, member, member .. ':beat')
return 1

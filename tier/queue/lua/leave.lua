#!lua flags=allow-oom
-- A member leaves, which holds nothing: member -> gone. Its consumers in the lanes go with the next look at these.
-- KEYS[1] workers  HASH
-- ARGV[1] member   name
-- Replies 1 | 0 when it was gone
local workers = KEYS[1]
local member = ARGV[1]

return math.min(1, redis.call('HDEL', workers, member, member .. ':beat'))

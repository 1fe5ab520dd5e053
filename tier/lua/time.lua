#!lua flags=allow-oom
-- Tells the time of the node that serves a key; TIME by itself goes to any node of a cluster.
-- KEYS[1] key  of any type, not looked at
-- Replies microseconds since 1970
local t = redis.call('TIME')
return t[1] * 1000000 + t[2]

#!lua flags=allow-oom
-- Reads a page of the names of keys, on the node that serves a key; SCAN by itself goes to any node of a cluster.
-- KEYS[1] key      of any type, not looked at
-- ARGV[1] cursor   '0' to begin with
-- ARGV[2] pattern  that the names match
-- ARGV[3] count    names to look at
-- Replies {next cursor, '0' at the end, names, some of them twice}
local cursor, pattern, count = ARGV[1], ARGV[2], ARGV[3]
return redis.call('SCAN', cursor, 'MATCH', pattern, 'COUNT', count)

#!lua flags=allow-oom
-- The oldest dead letters, for reports on groups: without what they hold, which may be large.
-- KEYS[1..] letters  STREAM  only looked at
-- Replies {id of the first entry, or '' where there is none, for each stream}
local ids = {}
for i = 1, #KEYS do
  local first = redis.call('XRANGE', KEYS[i], '-', '+', 'COUNT', 1)[1]
  ids[i] = first and first[1] or ''
end
return ids

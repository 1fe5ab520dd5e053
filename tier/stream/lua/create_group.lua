#!lua flags=allow-oom
-- Creates a group at its declared start: absent -> present, with an empty log if there is none yet. A no-op when it is
-- there already. It runs on a full server, too: a consumer that starts there has to join before it can drain it.
-- KEYS[1] log      STREAM
-- KEYS[2] group    HASH
-- KEYS[3] scope    HASH
-- ARGV[1] field    of the stream in the scope
-- ARGV[2] name     of the group
-- ARGV[3] after    id after which it reads; '$' for what is new
-- ARGV[4] start    the first message's id as declared, for packs that begin before it
-- ARGV[5] lease    ms
-- Replies {'created' | 'exists' | 'removed', lease ms, start}
local log, group, scope = KEYS[1], KEYS[2], KEYS[3]
local field, name, after, start, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local declared = redis.call('HGET', scope, field)
if declared and string.sub(declared, 1, 1) == '-' then return {'removed', '', ''} end
if redis.call('EXISTS', log) == 1 then
  for _, g in ipairs(redis.call('XINFO', 'GROUPS', log)) do
    if g[2] == name then
      redis.call('HSETNX', group, 'lease', lease)
      redis.call('HSETNX', group, 'start', '0-0') -- of another program: where it began is not known
      local row = redis.call('HMGET', group, 'lease', 'start')
      return {'exists', row[1], row[2]}
    end
  end
end
redis.call('XGROUP', 'CREATE', log, name, after, 'MKSTREAM')
redis.call('HSET', group, 'lease', lease, 'start', start)
return {'created', lease, start}

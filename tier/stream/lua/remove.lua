#!lua flags=allow-oom
-- Removes a stream with all that belongs to it: declared -> removed, of which the tombstone in the scope's hash tells.
-- Of one that is removed already, what is left over goes. Nothing goes when the caller does not know all groups.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] scope      HASH
-- KEYS[2] log        STREAM
-- KEYS[3..] parts    HASH, STREAM or STRING: what belongs to the groups and the producers
-- ARGV[1] field      of the stream in the scope
-- ARGV[2] declared   value of the field that the caller has seen
-- ARGV[3..] groups   names of those whose keys are among the parts
-- Replies {'ok', entries that went, keys that went} | {'changed', 0, 0} when there is another group or declaration
local scope, log = KEYS[1], KEYS[2]
local field, declared = ARGV[1], ARGV[2]
local call = redis.call

if call('HGET', scope, field) ~= declared then return {'changed', 0, 0} end
local known = {}
for i = 3, #ARGV do known[ARGV[i]] = true end
local entries = 0
if call('EXISTS', log) == 1 then
  for _, g in ipairs(call('XINFO', 'GROUPS', log)) do
    if not known[g[2]] then return {'changed', 0, 0} end
  end
  entries = call('XLEN', log)
end
-- Asked first, since a right that is lacking must not show halfway.
for name, cmd in pairs({hset = {'HSET', scope, field, '-'}, hdel = {'HDEL', scope, field}, unlink = {'UNLINK', log}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. name .. "' command")
  end
end
if string.sub(declared, 1, 1) ~= '-' then call('HSET', scope, field, '-' .. declared) end
-- Ids begin anew, also those that were at their end; and what is made again keeps everything.
call('HDEL', scope, 'top' .. string.sub(field, 7), 'retention' .. string.sub(field, 7))
local keys = call('UNLINK', log)
for i = 3, #KEYS do keys = keys + call('UNLINK', KEYS[i]) end
return {'ok', entries, keys}

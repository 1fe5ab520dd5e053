#!lua flags=allow-oom
-- Purges a log: entries -> none. Its ids go on above the old ones; the groups stay, hold nothing, and go on with what
-- comes next. Members are refused until they ask again. Nothing goes when the caller does not know all groups.
-- At rest only: keys are touched again that it may have emptied.
-- KEYS[1] log        STREAM
-- KEYS[2] cursors    HASH
-- KEYS[3..] parts    HASH, HASH, ZSET, HASH: hash, owners, retry and open of the first group, of the second, ...
-- ARGV[1..] groups   names, and those of the cursors; those whose keys are among the parts first
-- Replies {'ok' | 'none' when there is no log, entries that went} | {'changed', 0} when there is another group or cursor
local log, cursors = KEYS[1], KEYS[2]
local call = redis.call

if call('EXISTS', log) == 0 then return {'none', 0} end
local parts = {}
for i = 1, #ARGV do parts[ARGV[i]] = 4 * i - 1 end
local groups = call('XINFO', 'GROUPS', log)
for _, g in ipairs(groups) do
  if not parts[g[2]] then return {'changed', 0} end
end
local owned = {} -- the cursors
for _, f in ipairs(call('HKEYS', cursors)) do
  local name = string.match(f, '^(.*):epoch$')
  if name and not parts[name] then return {'changed', 0} end
  if name then owned[#owned + 1] = name end
end
local top, added, deleted, entries = '0-0', 0, '0-0', 0
local info = call('XINFO', 'STREAM', log)
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then top = info[i + 1] end
  if info[i] == 'entries-added' then added = info[i + 1] end
  if info[i] == 'max-deleted-entry-id' then deleted = info[i + 1] end
  if info[i] == 'length' then entries = info[i + 1] end
end
local function above(a, b)
  local am, as = string.match(a, '^(%d+)%-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)%-(%d+)$')
  am, bm = tonumber(am), tonumber(bm)
  return am > bm or (am == bm and tonumber(as) > tonumber(bs))
end

-- Asked first, since a right that is lacking must not show halfway.
for name, cmd in pairs({unlink = {'UNLINK', log}, ['xgroup|create'] = {'XGROUP', 'CREATE', log, '-', '0-0'}, ['xgroup|destroy'] = {'XGROUP', 'DESTROY', log, '-'}, xsetid = {'XSETID', log, '0-1'}, hset = {'HSET', log, '-', '-'}, del = {'DEL', log}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. name .. "' command")
  end
end
call('UNLINK', log) -- takes no longer for many entries, which XTRIM does
call('XGROUP', 'CREATE', log, '-', '0-0', 'MKSTREAM') -- the only way to an empty log
call('XGROUP', 'DESTROY', log, '-')
call('XSETID', log, top, 'ENTRIESADDED', added, 'MAXDELETEDID', deleted)
for _, g in ipairs(groups) do
  local at = above(g[8], top) and g[8] or top -- one that begins in the future still does
  call('XGROUP', 'CREATE', log, g[2], at)
  local first = parts[g[2]] or -4 -- of another program's group there are no keys
  local hash, owners, retry, open = KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
  if hash and call('EXISTS', hash) == 1 then
    call('HSET', hash, 'floor', at, 'added', added)
    call('DEL', owners, retry, open)
  end
end
for _, name in ipairs(owned) do
  local epoch, first = call('HGET', cursors, name .. ':epoch'), parts[name]
  local retry, open = KEYS[first + 2], KEYS[first + 3]
  call('HSET', cursors, name .. ':owner', '', name .. ':until', '0', name .. ':epoch', string.format('%.0f', epoch + 1), name .. ':commit', '0',
    name .. ':at', top, name .. ':above', '', name .. ':reach', top, name .. ':crashes', '0', name .. ':added', added, name .. ':passed', added)
  call('DEL', retry, open)
end
return {'ok', entries}

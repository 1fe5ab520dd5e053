#!lua
-- Appends messages under host order, one entry each, at the places of the ids that the stream's one writer minted: top
-- below the first id -> top at the last. Entries are those of EchoMQ 3.0: the fields id and m, in this order. The ids
-- make a repetition harmless: what stands at its place, field by field, is from an earlier sending.
-- KEYS[1] log          STREAM
-- KEYS[2] scope        HASH
-- ARGV[1] field        of the stream in the scope
-- ARGV[2] declaration  what that field must hold: brand and order
-- ARGV[3..]            entry id, id, encoded message; ...: ids ascend
-- Replies {code, first entry id, count, 1}: ok | dup (an earlier sending's, of which some may have been trimmed)
--   | nonmonotonic (the top is at or above the first id, and no entry of these) | undeclared | removed
local log, scope = KEYS[1], KEYS[2]
local field, declaration = ARGV[1], ARGV[2]
local first_message = 3
local call = redis.call

local declared = call('HGET', scope, field)
if declared and string.sub(declared, 1, 1) == '-' then return {'removed', '', 0, 0} end
if declared ~= declaration then return {'undeclared', '', 0, 0} end

local first, count = ARGV[first_message], (#ARGV - first_message + 1) / 3
local added = redis.pcall('XADD', log, first, 'id', ARGV[first_message + 1], 'm', ARGV[first_message + 2])
if not added.err then
  for i = first_message + 3, #ARGV, 3 do
    call('XADD', log, ARGV[i], 'id', ARGV[i + 1], 'm', ARGV[i + 2])
  end
  return {'ok', first, count, 1}
end

local ours = 0
for i = first_message, #ARGV, 3 do
  local entry = redis.pcall('XRANGE', log, ARGV[i], ARGV[i])
  if entry.err then return entry end
  if entry[1] then
    local f = entry[1][2]
    if #f ~= 4 or f[1] ~= 'id' or f[2] ~= ARGV[i + 1] or f[3] ~= 'm' or f[4] ~= ARGV[i + 2] then
      return {'nonmonotonic', '', 0, 0}
    end
    ours = ours + 1
  end
end
if ours > 0 then
  call('HSET', scope, field, declaration) -- for who waits for replicas: they wait for what their connection wrote
  return {'dup', first, count, 1}
end
local function parse(id)
  local ms, seq = string.match(id, '^(%d+)%-(%d+)$')
  return tonumber(ms), tonumber(seq)
end
local ms, seq = parse(first)
if not redis.acl_check_cmd('XINFO', 'STREAM', log) then
  return redis.error_reply("NOPERM the user has no permissions to run the 'xinfo|stream' command")
end
local info = redis.pcall('XINFO', 'STREAM', log)
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then
    local top_ms, top_seq = parse(info[i + 1])
    if top_ms > ms or (top_ms == ms and top_seq >= seq) then return {'nonmonotonic', '', 0, 0} end
  end
end
return added -- for another reason

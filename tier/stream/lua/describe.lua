#!lua flags=allow-oom
-- Describes a log without what its entries hold: XINFO STREAM answers with the first and the last one whole.
-- KEYS[1] log      STREAM
-- Replies {1 | 0 when there is none, length, entries ever added, first id or '', last id given, groups}
local log = KEYS[1]
local call = redis.call

if call('EXISTS', log) == 0 then return {0, 0, 0, '', '', 0} end
local info, first = {}, ''
local flat = call('XINFO', 'STREAM', log)
for i = 1, #flat, 2 do info[flat[i]] = flat[i + 1] end
if info['first-entry'] then first = info['first-entry'][1] end
return {1, info['length'], info['entries-added'], first, info['last-generated-id'], info['groups']}

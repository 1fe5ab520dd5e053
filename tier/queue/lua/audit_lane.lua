#!lua flags=allow-oom
-- Audits a page of a lane: each entry is that of a job, the active ones are looked at when their leases end, and the lane has its turn if it is to.
-- KEYS[1] jobs     HASH
-- KEYS[2] ring     ZSET
-- KEYS[3] terms    HASH  of lanes
-- KEYS[4] leased   ZSET
-- KEYS[5] queue    HASH
-- KEYS[6] limited  ZSET
-- KEYS[7] active   HASH
-- KEYS[8] log      STREAM
-- ARGV[1] name     of the lane
-- ARGV[2] from     '-' or the '(' form of the last entry looked at
-- ARGV[3] page     entries to look at
-- Replies {the last entry looked at or '' at the end, what is broken, ...}
local jobs, ring, terms, leased, queue, limited, active, log = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local name, from, page = ARGV[1], ARGV[2], tonumber(ARGV[3])
local call = redis.call

local out = {''}
local function broken(text) out[#out + 1] = text end
local counted = tonumber(call('HGET', active, name) or 0)
if call('EXISTS', log) == 0 then
  if counted ~= 0 then broken('is gone, and has a count of active jobs') end
  return out
end
local entries = call('XRANGE', log, from, '+', 'COUNT', page)
for _, e in ipairs(entries) do
  local id
  for k = 1, #e[2], 2 do
    if e[2][k] == 'j' then id = e[2][k + 1] end
  end
  if not id then
    broken(e[1] .. ' is no job: another program wrote it')
  elseif call('HGET', jobs, id) ~= e[1] .. ' ' .. name then
    broken(e[1] .. ' is of ' .. id .. ', whose row says otherwise')
  end
end
if #entries == page then out[1] = '(' .. entries[page][1] end
if from ~= '-' then return out end
local grouped = false
for _, g in ipairs(call('XINFO', 'GROUPS', log)) do grouped = grouped or g[2] == 'w' end
if not grouped then
  broken('has no group w')
  return out
end
local length, pending = call('XLEN', log), call('XPENDING', log, 'w')[1]
if length == 0 then broken('is empty, and there') end
if counted ~= pending and call('HEXISTS', active, '') == 1 then broken('has ' .. pending .. ' active jobs, and a count of ' .. counted) end
local ceiling, paused = string.match(call('HGET', terms, name) or '1 0 0', '^%S+ (%d+) (%d+)')
if not ceiling then
  broken('has terms that are none')
elseif length > pending and paused == '0' and (ceiling == '0' or pending < tonumber(ceiling)) and not call('ZSCORE', ring, name) and not call('ZSCORE', limited, name) then
  broken('has ready jobs and no turn')
end
local look = tonumber(call('ZSCORE', leased, name))
if pending > 0 and not look then broken('has active jobs, and nobody looks at them') end
local lease = tonumber(call('HGET', queue, 'lease') or '0')
local t = call('TIME')
local ends = t[1] * 1000 + math.floor(t[2] / 1000) + lease -- of one that was leased just now
for _, p in ipairs(call('XPENDING', log, 'w', '-', '+', page)) do
  if not call('XRANGE', log, p[1], p[1])[1] then broken(p[1] .. ' is active, and was deleted') end
  local late = look and look - math.max(ends - p[3], ends - lease) or 0
  if late > 2000 then broken(p[1] .. ' is looked at ' .. late .. ' ms after its lease has ended') end
end
return out

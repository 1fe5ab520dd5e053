#!lua flags=allow-oom
-- Ends an effect that begin_effect.lua has begun: begun -> done | left | none.
-- KEYS[1] record   STRING  as begin_effect.lua has it
-- ARGV[1] token    of the begin
-- ARGV[2] to       done: it has happened, which is so whoever has begun since; left: it may have; none: it has not by this begin
-- ARGV[3] keep     ms that the record lives
-- Replies 1 | 0 when another has begun since, and it is not done
local record = KEYS[1]
local token, to, keep = ARGV[1], ARGV[2], ARGV[3]

local t = redis.call('TIME')
local held = redis.call('GET', record) or ''
local state, by, at, first, last, times = string.match(held, '^(%a+) (%S+) (%d+) (%d+) (%d+) (%d+)$')
if to == 'done' then
  if state == 'done' then return 1 end
  if not state then -- it was lost, or its time had passed
    first = string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000))
    at, last, times = '0', first, '1'
  end
elseif by ~= token or state ~= 'begun' then
  return (by == token or not state) and 1 or 0 -- ended before
elseif to == 'none' and times == '1' then
  redis.call('DEL', record)
  return 1
elseif to == 'none' then
  to, times = 'left', string.format('%d', times - 1) -- an earlier one may have had its effect
end
redis.call('SET', record, string.format('%s %s %s %s %s %s', to, token, at, first, last, times), 'PX', keep)
return 1

#!lua
-- Begins an effect that is to happen once: none | left | begun -> begun, unless it is done, or another is at it.
-- KEYS[1] record   STRING  'state token attempt first last times': begun, left or done; of the last that began: its token and its
--                          attempt; when the first began, and the last, in ms; how many began
-- ARGV[1] token    of this begin, the same when it is repeated
-- ARGV[2] attempt  of the message
-- ARGV[3] hold     ms for which one that has begun keeps off those of its own attempt, and, when it has left too, those of lower ones
-- ARGV[4] keep     ms that the record lives
-- Replies {code, earlier, first, wait}: begun | done | held; how many began before; when the first did, unix ms; ms until it is not held
local record = KEYS[1]
local token, attempt, hold, keep = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local held = redis.call('GET', record) or ''
local state, by, at, first, last, times = string.match(held, '^(%a+) (%S+) (%d+) (%d+) (%d+) (%d+)$')
if not state then first, times = string.format('%.0f', now), '0' end
if state == 'done' then return {'done', times, first, '0'} end
if state == 'begun' and by == token then return {'begun', string.format('%d', times - 1), first, '0'} end
local ahead = state and tonumber(attempt) - tonumber(at)
if state and (ahead < 0 or ahead == 0 and state == 'begun') and now < last + hold then -- of one that lost its lease, or redriven
  return {'held', times, first, string.format('%.0f', last + hold - now)}
end
redis.call('SET', record, string.format('begun %s %s %s %.0f %d', token, attempt, first, now, times + 1), 'PX', keep)
return {'begun', times, first, '0'}

#!lua flags=allow-oom
-- Reads a page of the jobs outside the lanes that are in one state, by their times, and by their ids at one time.
-- KEYS[1] place   ZSET  due, waiting or dead
-- KEYS[2] jobs    HASH
-- KEYS[3] bodies  HASH
-- ARGV[1] ms      of the last job of the page before; '-inf' to begin with
-- ARGV[2] id      of that job; '' to begin with
-- ARGV[3] count   of jobs at most
-- ARGV[4] bytes   from which on the page ends
-- Replies {1 when there may be more | 0, {id, ms, row | '', body | '', ...}}
local place, jobs, bodies = KEYS[1], KEYS[2], KEYS[3]
local ms, id, count, bytes = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local call = redis.call

-- As the set has it: Lua compares text by the server's locale.
local function beyond(other)
  for i = 1, #other do
    local a, b = string.byte(other, i), string.byte(id, i)
    if a ~= b then return a > (b or -1) end
  end
  return false
end

local first, last = call('ZCOUNT', place, '-inf', '(' .. ms), call('ZCOUNT', place, '-inf', ms)
while first < last do -- the first job behind the last one, which may be gone
  local middle = math.floor((first + last) / 2)
  if beyond(call('ZRANGE', place, middle, middle)[1]) then last = middle else first = middle + 1 end
end
local page, size = {}, 0
local found = call('ZRANGE', place, first, first + count - 1, 'WITHSCORES')
for i = 1, #found, 2 do
  local row, body = call('HGET', jobs, found[i]) or '', call('HGET', bodies, found[i]) or ''
  for _, part in ipairs({found[i], found[i + 1], row, body}) do page[#page + 1] = part end
  size = size + #body
  if size >= bytes then break end
end
return {(#page < #found * 2 or #found == 2 * count) and 1 or 0, page}

#!lua flags=allow-oom
-- Finds dead letters that are none of commit.lua's, for the audit: without what they hold, which may be large.
-- KEYS[1] dead     STREAM  only looked at
-- ARGV[1] from     id of the first letter to look at, or its '(' form
-- ARGV[2] page     letters to look at
-- Replies {id of the last letter that was looked at or '' at the end, {ids of those that are damaged}}
local dead = KEYS[1]
local from, page = ARGV[1], tonumber(ARGV[2])

local function sound(f)
  local i = 3
  if f[1] ~= 'entry' or not string.match(f[2], '^%d+%-%d+$') then return false end
  if f[3] == 'index' then
    if not string.match(f[4], '^%d%d?%d?%d?$') or f[5] ~= 'of' or not string.match(f[6] or '', '^%d+$') then return false end
    i = 7
  end
  return f[i] == 'reason' and f[i + 2] == 'attempts' and string.match(f[i + 3] or '', '^%d+$') ~= nil
end
local letters, damaged = redis.call('XRANGE', dead, from, '+', 'COUNT', page), {}
for _, letter in ipairs(letters) do
  if not sound(letter[2]) then damaged[#damaged + 1] = letter[1] end
end
return {#letters == page and letters[page][1] or '', damaged}

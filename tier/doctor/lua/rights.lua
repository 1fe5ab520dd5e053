#!lua flags=allow-oom
-- Asks which commands the user may run, without running them.
-- KEYS[1] key     of any type, not looked at
-- ARGV[1..] asks  number of words, words of a command; number, words; ...
-- Replies {'1' | '0', ...}, one for each command; one that the server does not have is '0'
local answers = {}
local i = 1
while i <= #ARGV do
  local n = tonumber(ARGV[i])
  local known, allowed = pcall(redis.acl_check_cmd, unpack(ARGV, i + 1, i + n))
  answers[#answers + 1] = known and allowed and '1' or '0'
  i = i + n + 1
end
return answers

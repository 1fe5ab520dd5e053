#!lua
-- Notes how children of jobs have ended: open -> its outcome, once. What that is to the parent, the child's policy says: when it
-- fails, waiting -> dead; when it goes on, or no child is open any more, waiting -> due. A parent that does not wait is only told.
-- What is left of children whose parent is no more is deleted.
-- KEYS[1] jobs     HASH
-- KEYS[2] bodies   HASH
-- KEYS[3] due      ZSET
-- KEYS[4] dead     ZSET
-- KEYS[5] waiting  ZSET
-- KEYS[6] outbox   STREAM
-- KEYS[7] workers  HASH  only looked at
-- KEYS[8] wake     LIST
-- KEYS[9..] keys   HASH  of the children of parents, each with the LIST of the parent's result behind it
-- ARGV[1..]        for each note: number of its hash, parent, child or '' when there is nothing to note, outcome, text: the result of
--   a completed child, else why
-- Replies {how many were noted, how many parents failed}
local jobs, bodies, due, dead, waiting, outbox, workers, wake = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local args, places = 5, {dead = 1, cancelled = 2, expired = 3, removed = 4}
local call = redis.call

for i = 9, #KEYS, 2 do call('HLEN', KEYS[i]) end
call('ZSCORE', dead, '')
call('HLEN', bodies)
-- Asked first, since a right that is lacking must not show halfway.
for _, cmd in ipairs({{'DEL', jobs}, {'HGET', jobs, 'f'}, {'HSET', jobs, 'f', ''}, {'HINCRBY', jobs, 'f', '1'}, {'ZREM', waiting, 'm'}, {'ZADD', due, '0', 'm'}, {'EXISTS', outbox},
  {'XGROUP', 'CREATE', outbox, 'w', '0'}, {'XADD', outbox, '*', 'j', ''}, {'LLEN', wake}, {'HLEN', workers}, {'RPUSH', wake, '1'}, {'PEXPIRE', wake, '1'},
  {'ZRANGE', due, '0', '0'}}) do
  if not redis.acl_check_cmd(unpack(cmd)) then
    return redis.error_reply("NOPERM the user has no permissions to run the '" .. string.lower(cmd[1]) .. "' command")
  end
end
-- tell begin: that a job of a flow has ended, and how, goes to the outbox, for whom it concerns.
local function tell(id, family, outcome, text)
  if call('EXISTS', outbox) == 0 then call('XGROUP', 'CREATE', outbox, 'w', '0', 'MKSTREAM') end
  call('XADD', outbox, '*', 'j', id, 'p', family, 'e', outcome, 't', text)
end
-- tell end
local function kept(options)
  local readable, terms = pcall(cmsgpack.unpack, options)
  return readable and type(terms) == 'table' and terms.k
end
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local first_due, noted, failed = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2], 0, 0
for i = 1, #ARGV, args do
  local children, result = KEYS[7 + 2 * ARGV[i]], KEYS[8 + 2 * ARGV[i]]
  local parent, child, outcome, text = unpack(ARGV, i + 1, i + 4)
  local row = call('HGET', jobs, parent)
  local queue, policy = string.match(call('HGET', children, child) or '', '^(%S+) (%a+) open $')
  if not row then
    call('DEL', children)
  elseif queue then
    noted = noted + 1
    call('HSET', children, child, queue .. ' ' .. policy .. ' ' .. outcome .. ' ' .. text)
    local open = call('HINCRBY', children, 'open', -1)
    local effect = places[outcome] and string.sub(policy, places[outcome], places[outcome]) or 'i'
    local ms, rest = string.match(row, '^w (%d+) (.*)$')
    if ms and effect == 'f' then
      local body = cmsgpack.unpack(call('HGET', bodies, parent))
      body[5] = string.sub('child ' .. child .. ' of ' .. queue .. ' ' .. outcome .. ': ' .. text, 1, 1000)
      local when = string.format('%.0f', now)
      call('HSET', bodies, parent, cmsgpack.pack(body))
      call('ZREM', waiting, parent)
      call('ZADD', dead, when, parent)
      call('HSET', jobs, parent, 'd ' .. when .. ' ' .. rest)
      tell(parent, body[4], 'dead', body[5])
      local keep = kept(body[2])
      if keep then
        call('DEL', result)
        call('RPUSH', result, 'dead ' .. body[5])
        call('PEXPIRE', result, keep)
      end
      failed = failed + 1
    elseif ms and (open == 0 or effect == 'c') then
      local when = string.format('%.0f', math.max(now, ms))
      call('ZREM', waiting, parent)
      call('ZADD', due, when, parent)
      call('HSET', jobs, parent, 's ' .. when .. ' ' .. rest)
    end
  end
end
local next_due = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
if next_due ~= first_due and call('LLEN', wake) < math.floor(call('HLEN', workers) / 2) then call('RPUSH', wake, '1') end
return {noted, failed}

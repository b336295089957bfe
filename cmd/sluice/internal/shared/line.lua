-- A line of processes. KEYS: the members by arrival, which is also the channel; the members by when they were last seen.
-- ARGV: a member; its arrival in microseconds of the server's clock, or 0; after how many microseconds a member that was
-- not seen is gone, or 0 to leave. Returns the member's arrival, and how many are before it.
local line, seen = KEYS[1], KEYS[2]
local name, arrival, timeout = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local first = redis.call('ZRANGE', line, 0, 0)[1]
if timeout == 0 then
  redis.call('ZREM', line, name)
  redis.call('ZREM', seen, name)
else
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', seen, '-inf', now - timeout)) do
    redis.call('ZREM', line, gone)
    redis.call('ZREM', seen, gone)
  end
  if arrival == 0 then
    local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
    arrival = math.max(now, last and last + 1 or 0)
  end
  redis.call('ZADD', line, string.format('%.0f', arrival), name)
  redis.call('ZADD', seen, string.format('%.0f', now), name)
  redis.call('PEXPIRE', line, math.ceil(timeout / 1000))
  redis.call('PEXPIRE', seen, math.ceil(timeout / 1000))
end
local next = redis.call('ZRANGE', line, 0, 0)[1]
if next and next ~= first and next ~= name then
  redis.call('PUBLISH', line, next)
end
return {arrival, redis.call('ZRANK', line, name) or 0}

-- Leases of a concurrency limit. One call answers many operations, in order, at one instant of the server's clock.
--
-- KEYS[1]  a sorted set of the leases by expiry, in microseconds; a member is "token:holder"
-- KEYS[2]  a hash: permits of each member; "held" their sum, "token" the latest, "until" the latest expiry,
--          "waiting" until when somebody may wait, "at" the time of the latest change
-- ARGV     limit, microseconds that a lease lives, holder; then operations:
--          0 0 0       look
--          1 n flags   take n, or probe for 1 if n is 0; flags: 1: if refused, so is all that follows; 2: it may wait
--          2 token 0   release
--          5 token 0   renew
-- Returns  0, the instant; then for each operation: 1 or 0, permits held, microseconds until a lease that is not renewed
--          ends, the lease's token.
-- Or       the kind of limit that a key holds: 1 bucket, 2 fixed, 3 sliding, 9 something else.
local limit, ttl, holder = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function text(n)
	return string.format('%.0f', n)
end

local count = redis.pcall('ZCARD', KEYS[1])
if type(count) == 'table' then
	local kind = redis.call('TYPE', KEYS[1]).ok
	if kind == 'string' then
		kind = string.match(redis.call('GET', KEYS[1]), '^%a+')
		return {kind == 'bucket' and 1 or kind == 'fixed' and 2 or kind == 'sliding' and 3 or 9}
	end
	return {9}
end

local known = redis.pcall('HMGET', KEYS[2], 'held', 'token', 'until', 'waiting', 'at')
if known.err then
	return {9}
end
local held, token, last = tonumber(known[1] or 0), tonumber(known[2] or 0), tonumber(known[3] or 0)
local waiting, at = tonumber(known[4] or 0), tonumber(known[5] or 0)
local dirty, freed = false, false
if count == 0 then
	held = 0
elseif not known[1] then
	-- The server dropped the hash: at least so many are held.
	held, last = count, tonumber(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2])
end

if at > now + 1000000 and count > 0 then
	-- The clock went back, by more than it is ever adjusted: all leases live as long as they did.
	local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
	for i = 1, #all, 2 do
		redis.call('ZADD', KEYS[1], text(tonumber(all[i + 1]) - (at - now)), all[i])
	end
	last, waiting, dirty = last - (at - now), 0, true
end

local function remove(member)
	if redis.call('ZREM', KEYS[1], member) == 0 then
		return false
	end
	held = held - tonumber(redis.call('HGET', KEYS[2], member) or 1)
	redis.call('HDEL', KEYS[2], member)
	dirty, freed, count = true, true, count - 1
	return true
end

while count > 0 do
	local dead = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now), 'LIMIT', 0, 100)
	for i = 1, #dead do
		remove(dead[i])
	end
	if #dead < 100 then
		break
	end
end
if count == 0 then
	held = 0
end

local function ends()
	local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
	return first[2] and math.max(tonumber(first[2]) - now, 1) or 0
end

local out, blocked = {0, now}, false
for k = 4, #ARGV, 3 do
	local op, a, b = ARGV[k], tonumber(ARGV[k + 1]), tonumber(ARGV[k + 2])
	local status, retry, stamp = 1, 0, 0
	if op == '1' then
		if held + math.max(a, 1) > limit or blocked and a > 0 then
			status, blocked, retry = 0, blocked or b % 2 == 1, ends()
			if b >= 2 and waiting < now + 1500000 then
				waiting, dirty = now + 3000000, true
			end
		elseif a > 0 then
			token = math.max(token + 1, now)
			local member = text(token) .. ':' .. holder
			redis.call('ZADD', KEYS[1], text(now + ttl), member)
			redis.call('HSET', KEYS[2], member, text(a))
			held, last, stamp = held + a, math.max(last, now + ttl), token
			count, dirty = count + 1, true
		end
	elseif op == '2' then
		status = remove(text(a) .. ':' .. holder) and 1 or 0
	elseif op == '5' then
		local member = text(a) .. ':' .. holder
		if redis.call('ZSCORE', KEYS[1], member) then
			redis.call('ZADD', KEYS[1], text(now + ttl), member)
			last, dirty = math.max(last, now + ttl), true
		else
			status = 0
		end
	end
	local j = #out
	out[j + 1], out[j + 2], out[j + 3], out[j + 4] = status, held, retry, stamp
end

if dirty then
	redis.call('HSET', KEYS[2], 'held', text(held), 'token', text(token), 'until', text(last), 'waiting', text(waiting), 'at', text(now))
	local px = text(math.ceil((math.max(last, token, waiting) - now) / 1000) + 1000)
	redis.call('PEXPIRE', KEYS[1], px)
	redis.call('PEXPIRE', KEYS[2], px)
end
if freed and waiting > now then
	redis.call('PUBLISH', KEYS[1] .. ':released', '')
end
return out

-- Leases of a concurrency limiter.
--
-- KEYS[1]  a sorted set of the leases by expiry. A member is "id:holder"; the holder chooses the id, so that it can release a
--          lease of which it does not know whether it was granted.
-- KEYS[2]  a hash: "permits" or "permits version" of each member; "held", their sum; "token", the latest; "until", the latest
--          expiry; "waiting", until when a caller may be waiting; "at", the instant of the latest change
-- ARGV     limit, microseconds that a lease lives, holder; then operations:
--            READ
--            TAKE permits flags id     permits 0: is one there? BLOCKS: if it is refused, all that follow are refused, too.
--                                      WAITED: it is going to wait if it is refused.
--            CHARGE permits id         take, available or not
--            RENEW id permits version  the lease has that many permits from now on, unless a higher version came before
--            RELEASE id
-- Returns  0, the instant, 0; then for each operation: done (1 or 0), permits held, microseconds until a lease that is not
--          renewed ends, the lease's token. Or 0 and the instant: more leases have expired than one call removes. No operation was
--          performed, and the caller is to call again.
--
-- Format 1. A changed format must have other keys.
-- Cost: O(log n) for each operation with n leases. Expired leases are removed, once each and at most 100 in a call, so that no call
-- blocks the server for long.
-- Invariants: held is the sum of the leases' permits; each member of the set has its permits in the hash; token only
-- grows. PUBLISH comes last and may fail: releases do not depend on it.
local limit, ttl, holder = arg(), arg(), ARGV[3]
position = 3

local count = redis.pcall('ZCARD', KEYS[1])
if type(count) == 'table' then
	return conflict(KEYS[1])
end
local known = redis.pcall('HMGET', KEYS[2], 'held', 'token', 'until', 'waiting', 'at')
if known.err then
	return {9}
end
local held, token, last = tonumber(known[1] or 0), tonumber(known[2] or 0), tonumber(known[3] or 0)
local waiting, at = tonumber(known[4] or 0), tonumber(known[5] or 0)
local dirty, freed = false, false
if not known[1] and count > 0 then -- the server dropped the hash: the limit starts again
	redis.call('DEL', KEYS[1])
	count = 0
elseif count == 0 and held > 0 then -- the server dropped the set: the limit starts again
	redis.call('DEL', KEYS[2])
	held, dirty = 0, true
end

if at > now + 1000000 and count > 0 then
	-- The clock went back, by more than it is ever adjusted: all leases live as long as they did.
	local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
	for i = 1, #all, 2 do
		redis.call('ZADD', KEYS[1], text(tonumber(all[i + 1]) - (at - now)), all[i])
	end
	last, waiting, dirty = last - (at - now), 0, true
end

-- weight returns a lease's permits, and the latest version that has set them.
local function weight(member)
	local permits, version = string.match(redis.call('HGET', KEYS[2], member), '^(%d+) ?(%d*)$')
	return permits + 0, tonumber(version) or 0
end

local function remove(member)
	if redis.call('ZREM', KEYS[1], member) == 0 then
		return 0
	end
	local permits = weight(member)
	held = held - permits
	redis.call('HDEL', KEYS[2], member)
	dirty, freed, count = true, true, count - 1
	if count == 0 then
		held = 0
	end
	return 1
end

-- put lets a member live on with a number of permits, which are counted already.
local function put(member, permits, version)
	redis.call('ZADD', KEYS[1], text(now + ttl), member)
	redis.call('HSET', KEYS[2], member, text(permits) .. (version > 0 and ' ' .. text(version) or ''))
	last, dirty = max(last, now + ttl), true
end

local dead = count > 0 and redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text(now), 'LIMIT', 0, 101) or {}
for i = 1, min(#dead, 100) do
	remove(dead[i])
end

local out, blocked = {0, now, 0}, false
if #dead > 100 then
	out, position = {0, now}, #ARGV
end
while position < #ARGV do
	local op, done, retry, stamp = arg(), 1, 0, 0
	if op == TAKE or op == CHARGE then
		local n, flags, id = arg(), op == TAKE and arg() or 0, arg()
		if op == TAKE and (held + max(n, 1) > limit or blocked and n > 0) then
			local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
			done, blocked, retry = 0, blocked or flags % 2 == BLOCKS, first[2] and max(first[2] - now, 1) or 0
			if flags >= WAITED and waiting < now + 1500000 then
				waiting, dirty = now + 3000000, true
			end
		elseif n > 0 then
			token = max(token + 1, now)
			held, count, stamp = held + n, count + 1, token
			put(text(id) .. ':' .. holder, n, 0)
		end
	elseif op == RENEW then
		local id, n, version = arg(), arg(), arg()
		local member = text(id) .. ':' .. holder
		if redis.call('ZSCORE', KEYS[1], member) then
			local had, latest = weight(member)
			if version < latest then -- a later one has overtaken it
				n, version = had, latest
			end
			held, freed = held - had + n, freed or n < had
			put(member, n, version)
		else
			done = 0
		end
	elseif op == RELEASE then
		done = remove(text(arg()) .. ':' .. holder)
	end
	local n = #out
	out[n + 1], out[n + 2], out[n + 3], out[n + 4] = done, min(held, max_number), retry, stamp
end

if dirty then
	redis.call('HSET', KEYS[2], 'held', text(held), 'token', text(token), 'until', text(last), 'waiting', text(waiting), 'at', text(now))
	local px = text(ceil((max(last, token, waiting) - now) / 1000) + 1000)
	redis.call('PEXPIRE', KEYS[1], px)
	redis.call('PEXPIRE', KEYS[2], px)
end
if freed and waiting > now then
	redis.pcall('PUBLISH', KEYS[1] .. ':released', '') -- without the permission waiters ask once a second
end
return out

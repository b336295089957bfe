-- A token bucket. README.md in this directory has an example of a stamp, and of why least exists.
--
-- KEYS[1]  "bucket limit missing tick version since least"; none: a full bucket.
--            limit    that missing is relative to
--            missing  tokens, as of tick, the latest tick applied; above the limit, the bucket is in debt
--            version  changes when tokens come back other than by a tick. It is at least the instant at which the state
--                     began, so that no grant of an earlier state has it
--            since    grants whose version is in since .. version-1 were made before tokens were last given back; with
--                     least, or both are left out
--            least    tokens that have always been missing since then, less what was given back
-- ARGV     limit, tokens per period, period; then operations:
--            LOOK
--            TAKE permits count flags      count times; permits 0: is one there? BLOCKS: if it is refused, all that follow
--                                          are. WAITED: until now, for a token that came when the bucket was full
--            GIVE permits, and the grant's tick, missing and version: back, of a grant that left the bucket so
--            CHARGE permits had, and the grant's tick, missing and version: take, available or not, in addition to a grant
--                                          that had permits
--            BIND limit tokens period      the options until now; comes first
--            PREFETCH permits              take at most that many, and half of what is there
--            RESET                         comes first
--            RETURN permits                back, of whatever grants
-- Returns  0, the instant, 0; then for each operation: done, missing, microseconds since tick, version.
--            done: how many takes were granted; how many permits were given back, were missing because of the grant that is
--            charged, or were prefetched
--
-- Format 1. Another format has another first word in the value, so that older processes say that the key holds something else.
-- Cost: O(1) for each operation.
-- Invariants: missing >= 0; tick <= now; since < version, and since is 0 or 0 < least <= missing. All quotients are of integers
-- below 2^53, so that their floors and ceilings are exact.
--
-- It is one piece, as Redis makes a function anew in each call, and that costs as much as what most of them would do. The
-- value is formatted by one call, and out has room for one operation, as growing costs more than filling it.
local limit, tokens, period = arg(), arg(), arg()
local state_limit, missing, tick, version, since, least = limit, 0, now, now, 0, 0
local full_at, dirty, keep = now, false, 0 -- full_at: since when it is full, if it is; keep: the key, for milliseconds

local state = redis.pcall('GET', KEYS[1])
if state then
	local as_text = type(state) == 'string' and state or ''
	local l, m, t, v, marks = string.match(as_text, '^bucket (%d+) (%d+) (-?%d+) (%d+)(.*)$')
	if not l then
		return conflict(KEYS[1])
	end
	state_limit, missing, tick, version = l + 0, m + 0, t + 0, v + 0
	if marks ~= '' then
		local from, tokens_missing = string.match(marks, '^ (%d+) (%d+)$')
		since, least = from + 0, tokens_missing + 0
	end
	if tick > now then -- the clock went back: it counts as having stood still, and nothing is certain of earlier grants
		tick, version, since, least, dirty = now, max(version + 1, now), 0, 0, true
	end
	full_at = tick
end

local new_limit, new_tokens, new_period = limit, tokens, period
if ARGV[4] + 0 == BIND then -- until now the bucket was filled by the options before
	limit, tokens, period = ARGV[5] + 0, ARGV[6] + 0, ARGV[7] + 0
end
if missing > 0 and now - tick >= period then
	local ticks, needed = floor((now - tick) / period), ceil(missing / tokens)
	if ticks >= needed then
		missing, full_at = 0, tick + needed * period
	else
		missing, tick = missing - ticks * tokens, tick + ticks * period
	end
	least = least - ticks * tokens
	if least <= 0 then
		since, least = 0, 0
	end
end

local out, length, blocked = {0, now, 0, 0, 0, 0, 0}, 3, false
while position < #ARGV do
	local op, done, taken, waited = arg(), 0, 0, false
	if op == TAKE then
		local permits, count, flags = arg(), arg(), arg()
		if permits == 0 or not blocked then
			done = max(min(floor((limit - missing) / max(permits, 1)), count), 0)
		end
		blocked = blocked or done < count and flags % 2 == BLOCKS
		taken, waited = done * permits, flags >= WAITED
	elseif op == GIVE or op == CHARGE then
		-- How many permits are certain to be missing still because of the grant? All, if no tick came since. Else at most
		-- what the bucket would lack if nothing had been taken since and, if tokens were given back since, least.
		taken = op == CHARGE and arg() or 0
		local permits, grant_tick, grant_missing, grant_version = arg(), arg(), arg(), arg()
		local latest = grant_version == version
		if latest or since > 0 and grant_version >= since and grant_version < version then
			done = min(permits, missing)
			if grant_tick ~= tick then
				done = min(done, grant_missing - floor((now - grant_tick) / period) * tokens)
				done = max(latest and done or min(done, least), 0)
			end
		end
		if op == GIVE and done > 0 then
			missing = missing - done
			if since == 0 then
				since, least = version, missing
			else
				least = max(min(latest and least or least - done, missing), 0)
			end
			version, full_at, dirty = max(version + 1, now), now, true
		end
	elseif op == BIND then
		-- The bucket keeps its tokens, at most the new limit, and the next come when they would have, or one new period from
		-- now. What earlier grants are owed was counted otherwise.
		position = position + 3
		if limit ~= new_limit or tokens ~= new_tokens or period ~= new_period then
			version, since, least = max(version + 1, now), 0, 0
		end
		if missing == 0 then
			state_limit, tick = limit, now
		else
			tick = min(tick + period, now + new_period) - new_period
		end
		limit, tokens, period = new_limit, new_tokens, new_period
		if state_limit ~= limit then
			missing = max(missing + limit - state_limit, 0)
			state_limit, full_at = limit, missing > 0 and full_at or now
		end
		dirty = dirty or state or missing > 0
	elseif op == PREFETCH then
		done = min(arg(), floor(max(limit - missing, 0) / 2))
		taken = done
	elseif op == RESET then
		-- For a while the version is kept, for grants of this very instant.
		done, missing, since, least, full_at, version, keep, dirty = 1, 0, 0, 0, now, max(version + 1, now), 1000, true
	elseif op == RETURN then
		done = min(arg(), missing)
		if done > 0 then -- nothing is certain of earlier grants
			missing, version, since, least, full_at, dirty = missing - done, max(version + 1, now), 0, 0, now, true
		end
	end
	if taken > 0 then
		if missing == 0 then
			state_limit, tick = limit, waited and now - (now - full_at) % period or now
		end
		missing, dirty = min(missing + taken, most), true
	end
	out[length + 1], out[length + 2], out[length + 3], out[length + 4] = done, missing, missing > 0 and now - tick or 0, version
	length = length + 4
end

if dirty then
	if missing == 0 and keep == 0 then
		redis.call('DEL', KEYS[1])
	else
		-- A little longer than until it is full, for callers that wait until then.
		local ttl = max(ceil((min(tick + ceil(missing / tokens) * period, most) - now + min(period, 1000000)) / 1000), keep)
		local value = string.format('bucket %.0f %.0f %.0f %.0f', state_limit, missing, missing > 0 and tick or full_at, version)
		if since > 0 then
			value = value .. string.format(' %.0f %.0f', since, least)
		end
		redis.call('SET', KEYS[1], value, 'PX', min(ttl, 3000000000000))
	end
end
return out

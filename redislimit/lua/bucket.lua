-- A token bucket. README.md in this directory explains stamps and "least", with an example.
--
-- KEYS[1]  "bucket missing tick version since least"; if there is none, the bucket is full.
--            missing  tokens that are missing as of tick, the latest tick applied; above the limit, the bucket is in debt. If
--                     no token is missing, tick is the instant at which the bucket became full.
--            version  changes when tokens come back other than by a tick. It is at least the instant at which the state
--                     started, so that no grant of an earlier state has it.
--            since    grants with a version in since .. version-1 were made before tokens were last returned; since and
--                     least may both be absent
--            least    tokens that have always been missing since then, less those that were returned
-- ARGV     limit, tokens per period, period; then operations:
--            READ
--            TAKE permits count flags  count times. Permits 0: is one there? BLOCKS: if it is refused, all that follow are
--                                      refused, too. WAITED: it has waited until now, for a token that came when the bucket
--                                      was full. LATER: what is not there is taken all the same, as a debt: it is the request's once
--                                      that debt is paid. Done is 1 more than the tokens that are lost meanwhile. Only with count 1.
--            GIVE permits tick missing version         return, of a grant that left the bucket in that state
--            CHARGE permits had tick missing version   take, available or not, in addition to a grant that had permits
--            PREFETCH permits          take at most that many, and half of those available
--            RESET                     make the bucket full
--            RETURN permits            return, whichever grants took them
-- Returns  0, the instant, 0; then for each operation: done, missing, microseconds since tick, version.
--            done: how many requests were granted; how many permits were returned, were still missing because of the grant
--            that is charged, or were prefetched
--
-- Format 1. A changed format must have another first word in the value, so that older processes report a conflict.
-- Cost: O(1) for each operation.
-- Invariants: missing >= 0; tick <= now; since < version; either since is 0 or 0 < least <= missing.
--
-- The script is one piece, because Redis would make each function anew in each call, which costs as much as most of them do.
-- For the same reason the value is formatted by one call, and out has room for one operation.
local limit, tokens, period = arg(), arg(), arg()
local missing, tick, version, since, least = 0, now, now, 0, 0
local full_at, dirty, keep = now, false, 0 -- full_at: since when it is full, if it is; keep: the key, for milliseconds

local state = redis.pcall('GET', KEYS[1])
if state then
	local as_text = type(state) == 'string' and state or ''
	local m, t, v, marks = string.match(as_text, '^bucket (%d+) (-?%d+) (%d+)(.*)$')
	if not m then
		return conflict(KEYS[1])
	end
	missing, tick, version = m + 0, t + 0, v + 0
	if marks ~= '' then
		local from, tokens_missing = string.match(marks, '^ (%d+) (%d+)$')
		since, least = from + 0, tokens_missing + 0
	end
	if tick > now then -- the clock went back: it counts as having stood still, and nothing is certain of earlier grants
		tick, version, since, least, dirty = now, max(version + 1, now), 0, 0, true
	end
	full_at = tick
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
		taken, waited = done * permits, flags % LATER >= WAITED
		if flags >= LATER and done < count then
			-- Tokens that come before the request is served, and for which a bucket without debts would have no room, are lost.
			local lost = max(ceil((missing + permits - limit) / tokens) * tokens - missing, 0)
			if missing + permits + lost < max_number then
				done, taken = 1 + lost, permits + lost
			end
		end
		blocked = blocked or done < count and flags % 2 == BLOCKS
	elseif op == GIVE or op == CHARGE then
		-- How many permits are certain to be missing still because of the grant? All, if no tick came since. Otherwise at most
		-- what the bucket would lack if nothing had been taken since and, if tokens were returned since, least.
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
	elseif op == PREFETCH then
		done = min(arg(), floor(max(limit - missing, 0) / 2))
		taken = done
	elseif op == RESET or op == RETURN then -- nothing is certain of earlier grants
		done = op == RESET and missing or min(arg(), missing)
		if op == RESET or done > 0 then
			missing, version, since, least, full_at, dirty = missing - done, max(version + 1, now), 0, 0, now, true
		end
		if op == RESET then -- for a while the version is kept, for grants of this very instant
			done, keep = 1, 1000
		end
	end
	if taken > 0 then
		if missing == 0 then
			tick = waited and now - (now - full_at) % period or now
		end
		missing, dirty = min(missing + taken, max_number), true
	end
	out[length + 1], out[length + 2], out[length + 3], out[length + 4] = done, missing, missing > 0 and now - tick or 0, version
	length = length + 4
end

if dirty then
	if missing == 0 and keep == 0 then
		redis.call('DEL', KEYS[1])
	else
		-- The key lives a little longer than until the bucket is full, for callers that wait until then.
		local full = min(tick + ceil(missing / tokens) * period, max_number)
		local ttl = max(ceil((full - now + min(period, 1000000)) / 1000), keep)
		local value = string.format('bucket %.0f %.0f %.0f', missing, missing > 0 and tick or full_at, version)
		if since > 0 then
			value = value .. string.format(' %.0f %.0f', since, least)
		end
		redis.call('SET', KEYS[1], value, 'PX', min(ttl, 3000000000000))
	end
end
return out

-- A token bucket. README.md in this directory explains stamps and "least", with an example.
--
-- KEYS[1]  "bucket missing tick version since least promised lost latest moved"; if there is none, the bucket is full.
--            missing  tokens that are missing as of tick, the latest tick applied; above the limit, the bucket is in debt. If
--                     no token is missing, tick is the instant at which the bucket became full.
--            version  changes when tokens come back other than by a tick, or a ticket is returned. It is at least the instant
--                     at which the state started, so that no grant of an earlier state has it.
--            since    grants with a version in since .. version-1 were made before tokens were last returned; 0 if none were. All
--                     from here on may be absent
--            least    tokens that have always been missing since then, less those that were returned
--            promised tokens of the tickets that are not due; the rest may be absent if it is 0
--            lost     tokens for which the bucket will have no room before its tickets are due
--            latest   when the last ticket is due
--            moved    1 if a token or a ticket was returned since there are tickets, so that others may fit between them; or 0
-- KEYS[2]  a sorted set of the instants at which tickets are due. A member is "instant permits".
-- ARGV     limit, tokens per period, period; then operations:
--            READ
--            TAKE permits count flags  count times. Permits 0: is one there? BLOCKS: if it is refused, all that follow are
--                                      refused, too. WAITED: it has waited until now, for a token that came when the bucket
--                                      was full. LATER: if it is refused, it gets a ticket: it takes its tokens at the first
--                                      instant at which they are there and no other ticket comes later for it. Then count is
--                                      an instant before which that is not, and it is one request. While there are tickets,
--                                      all without LATER are refused.
--            GIVE permits tick missing version         return, of a grant that left the bucket in that state
--            CANCEL permits tick missing version due   return a ticket; if it is due already, as GIVE
--            CHARGE permits had tick missing version   take, available or not, in addition to a grant that had permits
--            PREFETCH permits          take at most that many, and half of those available
--            RESET                     make the bucket full
--            RETURN permits            return, whichever grants took them
-- Returns  0, the instant, what is missing in the end without what is promised and lost; then for each operation: done, missing, microseconds since tick, version. Missing includes what is
--          promised and lost, so that less a period's tokens for each tick it is what will be missing when the last ticket is due.
--            done: how many requests were granted, and for one that got a ticket 1, more by twice the microseconds until it
--            is due, and by 1 if it is not certain that it leaves the bucket in the state that is reported; how many permits
--            were returned, were still missing because of the grant that is charged, or were prefetched
--
-- Format 1. A changed format must have another first word in the value, so that older processes report a conflict.
-- Cost: O(1) for each operation, O(log n) for one of n tickets. While moved is 1, O(n) for a LATER, and once for the others of a call.
-- Invariants: missing >= 0; tick <= now; since < version; either since is 0 or 0 < least <= missing + promised. At each instant
-- that a ticket is due, its tokens are there, unless others were charged: what the tickets take is never more than what comes.
--
-- The script is one piece, because Redis would make each function anew in each call, which costs as much as most of them do.
-- For the same reason the value is formatted by one call, and out has room for one operation.
local limit, tokens, period = arg(), arg(), arg()
local missing, tick, version, since, least = 0, now, now, 0, 0
local promised, lost, latest, moved = 0, 0, 0, 0
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
		local from, tokens_missing, tickets = string.match(marks, '^ (%d+) (%d+)(.*)$')
		since, least = from + 0, tokens_missing + 0
		if tickets ~= '' then
			local p, l, last, returned = string.match(tickets, '^ (%d+) (%d+) (%d+) (%d)$')
			promised, lost, latest, moved = p + 0, l + 0, last + 0, returned + 0
		end
	end
	if tick > now then -- the clock went back: it counts as having stood still, and nothing is certain of earlier grants
		tick, version, since, least, dirty = now, max(version + 1, now), 0, 0, true
		missing, promised, lost, moved = missing + promised + lost, 0, 0, 0 -- the tickets have taken their tokens
	end
	full_at = tick
end

if promised > 0 then
	repeat
		local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now), 'LIMIT', 0, 100)
		for i = 1, #due do
			local at, permits = string.match(due[i], '^(%d+) (%d+)$')
			local ticks = max(floor((at - tick) / period), 0)
			lost = max(lost - max(ticks * tokens - missing, 0), 0)
			missing, tick, promised = max(missing - ticks * tokens, 0) + permits, tick + ticks * period, promised - permits
			least, dirty = least - ticks * tokens, true
		end
		if #due > 0 then
			redis.call('ZREM', KEYS[2], unpack(due))
		end
	until #due < 100
	if promised > 0 and latest > now then
		-- While there are tickets, the ticks go on in a bucket that is full, so that it keeps no room for the next one.
		local ticks = floor((now - tick) / period)
		local rest = max(missing - ticks * tokens, min(missing, 1))
		lost = max(lost - (ticks * tokens - missing + rest), 0)
		missing, tick, least = rest, tick + ticks * period, least - ticks * tokens
	else
		-- The server may have dropped the set: then the tickets take their tokens now.
		redis.call('DEL', KEYS[2])
		missing, promised, lost, moved, dirty = missing + max(promised, 0), 0, 0, 0, true
	end
	full_at = tick
	if least <= 0 then
		since, least = 0, 0
	end
end

if promised == 0 and missing > 0 and now - tick >= period then
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

-- tickets returns the instants and the permits of all tickets, the earliest first.
local function tickets()
	local instants, permits = redis.call('ZRANGE', KEYS[2], 0, -1), {}
	for i = 1, #instants do
		local at, n = string.match(instants[i], '^(%d+) (%d+)$')
		instants[i], permits[i] = at + 0, n + 0
	end
	return instants, permits
end

-- put adds permits, or takes them if they are below 0, to those of the tickets that are due at an instant. It returns how many.
local function put(n, at)
	local member = redis.call('ZRANGEBYSCORE', KEYS[2], text(at), text(at))[1]
	local had = member and string.match(member, ' (%d+)$') + 0 or 0
	n = max(n, -had)
	if member then
		redis.call('ZREM', KEYS[2], member)
	end
	if had + n > 0 then
		redis.call('ZADD', KEYS[2], text(at), string.format('%.0f %.0f', at, had + n))
	end
	promised, dirty = promised + n, true
	return math.abs(n)
end

-- between returns the first instant from one on at which a request fits in between the tickets, without delaying one.
local function between(n, from)
	local instants, permits = tickets()
	local short, at, place, needs = missing, tick, nil, 0
	for i = 1, #instants + 1 do
		if not place then
			local ticks = max(ceil((short + n - limit) / tokens), 0)
			if i > #instants or max(at + ticks * period, from) <= instants[i] then
				ticks = max(ticks, floor((from - at) / period))
				place, needs = max(at + ticks * period, from), n
				short, at = max(short - ticks * tokens, 0), at + ticks * period
			end
		end
		if i > #instants then
			break
		end
		local ticks = max(floor((instants[i] - at) / period), 0)
		needs = needs - max(ticks * tokens - short, 0) -- tokens that come and would be lost
		if place and needs <= 0 then
			break
		end
		short, at, from = max(short - ticks * tokens, 0) + permits[i], at + ticks * period, max(from, instants[i])
		if place and limit - short < needs then
			place = nil
		end
	end
	return place
end

-- foresee computes lost and latest.
local function foresee()
	local instants, permits = tickets()
	local short, at = missing, tick
	lost, latest = 0, instants[#instants] or latest
	for i = 1, #instants do
		local ticks = max(floor((instants[i] - at) / period), 0)
		lost = lost + max(ticks * tokens - short, 0)
		short, at = max(short - ticks * tokens, 0) + permits[i], at + ticks * period
	end
end

local out, length, blocked, stale, placed = {0, now, 0, 0, 0, 0, 0}, 3, false, false, now
while position < #ARGV do
	local op, done, taken, waited, returned = arg(), 0, 0, false, 0
	if stale and op == TAKE then
		foresee()
		stale = false
	end
	if op == TAKE then
		local permits, count, flags = arg(), arg(), arg()
		if flags >= LATER then
			placed, count = max(placed, count), 1
		end
		if promised == 0 and (permits == 0 or not blocked) then
			done = max(min(floor((limit - missing) / max(permits, 1)), count), 0)
		end
		taken, waited = done * permits, flags % LATER >= WAITED
		if flags >= LATER and done < count then
			local all = missing + promised + lost
			local ticks = max(ceil((all + permits - limit) / tokens), 0)
			local at = moved == 1 and between(permits, placed) or tick + ticks * period
			if all + permits + max(ticks * tokens - all, 0) < max_number and 2 * (at - now) < max_number then
				done = 1 + 2 * max(at - now, 0) + moved
				stale = moved == 1
				if at <= now then
					taken = permits
				else
					lost = lost + max(ticks * tokens - all, 0)
					if promised == 0 then
						redis.call('DEL', KEYS[2])
					end
					put(permits, at)
					placed, latest = max(placed, at), max(latest, at)
				end
			end
		end
		blocked = blocked or done < count and flags % 2 == BLOCKS
	elseif op == GIVE or op == CHARGE or op == CANCEL then
		-- How many permits are certain to be missing still because of the grant? All, if no tick came since. Otherwise at most
		-- what the bucket would lack if nothing had been taken since and, if tokens were returned since, least.
		taken = op == CHARGE and arg() or 0
		local permits, grant_tick, grant_missing, grant_version = arg(), arg(), arg(), arg()
		local latest_version = grant_version == version
		local due = op == CANCEL and arg() or 0
		if due > now and promised > 0 then
			done = put(-permits, due)
			-- It is one of the tokens that are least if it was there at that time.
			local counts = not latest_version and since > 0 and grant_version <= since
			returned = done
			least = counts and least - done or least
		elseif latest_version or since > 0 and grant_version >= since and grant_version < version then
			done = min(permits, missing)
			if grant_tick ~= tick then
				done = min(done, grant_missing - floor((now - grant_tick) / period) * tokens)
				done = max(latest_version and done or min(done, least), 0)
			end
			if op ~= CHARGE then
				missing, returned = missing - done, done
				least = latest_version and least or least - done
			end
		end
		if returned > 0 then
			if since == 0 then
				since, least = version, missing + promised
			else
				least = max(min(least, missing + promised), 0)
			end
			version, dirty = max(version + 1, now), true
		end
	elseif op == PREFETCH then
		local most = promised == 0 and floor(max(limit - missing, 0) / 2) or 0
		done = min(arg(), most)
		taken = done
	elseif op == RESET or op == RETURN then -- nothing is certain of earlier grants
		done = op == RESET and missing or min(arg(), missing)
		returned = done
		if op == RESET or done > 0 then
			missing, version, since, least, full_at, dirty = missing - done, max(version + 1, now), 0, 0, now, true
		end
		if op == RESET then -- for a while the version is kept, for grants of this very instant
			done, keep = 1, 1000
		end
	end
	if returned > 0 then
		missing = promised > 0 and max(missing, 1) or missing -- see above
		full_at, moved, stale = now, promised > 0 and 1 or 0, promised > 0
	end
	if taken > 0 then
		if missing == 0 and promised == 0 then
			tick = waited and now - (now - full_at) % period or now
		end
		missing, dirty, stale = min(missing + taken, max_number), true, stale or promised > 0
	end
	if promised == 0 then
		lost, latest, moved, stale = 0, 0, 0, false
	elseif stale and position >= #ARGV then
		foresee()
	end
	local all = missing + promised + lost
	all = promised > 0 and max(all, limit) or all
	out[length + 1], out[length + 2], out[length + 3], out[length + 4] = done, all, all > 0 and now - tick or 0, version
	length = length + 4
end

if dirty then
	if missing == 0 and promised == 0 and keep == 0 then
		redis.call('DEL', KEYS[1])
	else
		-- The key lives a little longer than until the bucket is full, for callers that wait until then.
		local full = min(max(tick + ceil((missing + promised + lost) / tokens) * period, promised > 0 and latest or 0), max_number)
		local ttl = min(max(ceil((full - now + min(period, 1000000)) / 1000), keep), 3000000000000)
		local value = string.format('bucket %.0f %.0f %.0f', missing, missing + promised > 0 and tick or full_at, version)
		if since > 0 or promised > 0 then
			value = value .. string.format(' %.0f %.0f', since, least)
		end
		if promised > 0 then
			value = value .. string.format(' %.0f %.0f %.0f %d', promised, lost, latest, moved)
			redis.call('PEXPIRE', KEYS[2], text(ttl))
		end
		redis.call('SET', KEYS[1], value, 'PX', text(ttl))
	end
end
out[3] = missing
return out

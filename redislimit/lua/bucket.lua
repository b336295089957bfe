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

local out, length, blocked, stale, placed = {0, now, 0, 0, 0, 0, 0}, 3, false, false, now
while position < #ARGV do
	local op, done, taken, waited, returned, counts = arg(), 0, 0, false, 0, false
	local ticket, due = 0, 0 -- permits that join the tickets of an instant, or leave them
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
			local unused = max(ticks * tokens - all, 0)
			due = tick + ticks * period
			if moved == 1 then
				-- The first gap between the tickets that delays none. From a place on, the tokens that come and would be lost pay
				-- for the permits; until they have, each ticket must find them left over.
				local instants, place, short, at, owed = redis.call('ZRANGE', KEYS[2], 0, -1), nil, missing, tick, 0
				for i = 1, #instants + 1 do
					local next, takes = max_number, 0
					if i <= #instants then
						next, takes = string.match(instants[i], '^(%d+) (%d+)$')
						next, takes = next + 0, takes + 0
					end
					if not place then
						local ticks = max(ceil((short + permits - limit) / tokens), floor((placed - at) / period), 0)
						if max(at + ticks * period, placed) <= next then
							place, owed = max(at + ticks * period, placed), permits
							short, at = max(short - ticks * tokens, 0), at + ticks * period
						end
					end
					local ticks = max(floor((next - at) / period), 0)
					owed = owed - max(ticks * tokens - short, 0)
					if place and owed <= 0 or i > #instants then
						break
					end
					short, at, placed = max(short - ticks * tokens, 0) + takes, at + ticks * period, max(placed, next)
					if limit - short < owed then
						place = nil
					end
				end
				due = place or max_number
			end
			if all + permits + unused < max_number and 2 * (due - now) < max_number then
				done = 1 + 2 * max(due - now, 0) + moved
				if due <= now then
					taken = permits
				else
					ticket, lost, placed, latest, stale = permits, lost + unused, due, max(latest, due), moved == 1
				end
			end
		end
		blocked = blocked or done < count and flags % 2 == BLOCKS
	elseif op == GIVE or op == CHARGE or op == CANCEL then
		-- How many permits are certain to be missing still because of the grant? All, if no tick came since. Otherwise at most
		-- what the bucket would lack if nothing had been taken since and, if tokens were returned since, least.
		taken = op == CHARGE and arg() or 0
		local permits, grant_tick, grant_missing, grant_version = arg(), arg(), arg(), arg()
		local newest = grant_version == version
		due = op == CANCEL and arg() or 0
		if due > now and promised > 0 then
			-- Its tokens are among those that are least if it was there at that time.
			ticket, counts = -permits, not newest and grant_version <= since
		elseif newest or since > 0 and grant_version >= since and grant_version < version then
			done = min(permits, missing)
			if grant_tick ~= tick then
				done = min(done, grant_missing - floor((now - grant_tick) / period) * tokens)
				done = max(newest and done or min(done, least), 0)
			end
			if op ~= CHARGE then
				missing, returned, counts = missing - done, done, not newest
			end
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
	if ticket ~= 0 then
		if promised == 0 then
			redis.call('DEL', KEYS[2])
		end
		local member = redis.call('ZRANGEBYSCORE', KEYS[2], text(due), text(due))[1]
		local had = member and string.match(member, ' (%d+)$') + 0 or 0
		ticket = max(ticket, -had)
		if member then
			redis.call('ZREM', KEYS[2], member)
		end
		if had + ticket > 0 then
			redis.call('ZADD', KEYS[2], text(due), string.format('%.0f %.0f', due, had + ticket))
		end
		promised, dirty = promised + ticket, true
		if ticket < 0 then
			done, returned = -ticket, -ticket
		end
	end
	if returned > 0 then
		if op == GIVE or op == CANCEL then
			if since == 0 then
				since, least = version, missing + promised
			else
				least = max(min(counts and least - done or least, missing + promised), 0)
			end
			version = max(version + 1, now)
		end
		missing = promised > 0 and max(missing, 1) or missing -- see above
		full_at, moved, stale, dirty = now, promised > 0 and 1 or 0, promised > 0, true
	end
	if taken > 0 then
		if missing == 0 and promised == 0 then
			tick = waited and now - (now - full_at) % period or now
		end
		missing, dirty, stale = min(missing + taken, max_number), true, stale or promised > 0
	end
	if promised == 0 then
		lost, latest, moved, stale = 0, 0, 0, false
	elseif stale and (position >= #ARGV or ARGV[position + 1] + 0 == TAKE) then
		-- What will be lost before the tickets that there are?
		local instants, short, at = redis.call('ZRANGE', KEYS[2], 0, -1), missing, tick
		lost, stale = 0, false
		for i = 1, #instants do
			local next, takes = string.match(instants[i], '^(%d+) (%d+)$')
			local ticks = max(floor((next - at) / period), 0)
			lost = lost + max(ticks * tokens - short, 0)
			short, at, latest = max(short - ticks * tokens, 0) + takes, at + ticks * period, next + 0
		end
	end
	local all = missing + promised + lost
	all = promised > 0 and max(all, limit) or all
	out[length + 1], out[length + 2], out[length + 3], out[length + 4] = done, all, all > 0 and now - tick or 0, version
	length = length + 4
end
out[3] = missing

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
return out

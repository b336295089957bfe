-- A token bucket.
--
-- KEYS[1]  "bucket limit lack tick version since low"; none: a full bucket.
--            limit    that lack is relative to
--            lack     tokens missing as of tick, the latest tick applied; above the limit, the bucket is in debt
--            version  changes when tokens come back other than by a tick. It is at least the instant at which the state
--                     began, so that grants of a state that is gone are none of this one
--            since    grants of the versions since .. version-1 were made before tokens were last given back; none: of none
--            low      the bucket has lacked at least that many tokens since then, less what was given back
-- ARGV     limit, tokens per period, period; then operations:
--            LOOK
--            TAKE permits count flags      count times; permits 0: is one there? BLOCKS: if it is refused, all that follow
--                                          are. WAITED: until now, for a token that came when the bucket was full
--            GIVE permits tick lack version           back, of a grant that left the bucket so
--            CHARGE permits had tick lack version     take, available or not, in addition to a grant that had permits
--            BIND limit tokens period      the options until now; comes first
--            PREFETCH permits              take at most that many, and half of what is there
--            RESET                         comes first
-- Returns  0, the instant, 0; then for each operation: done, lack, microseconds since tick, version.
--            done: how many takes were granted; how many permits were given back, were missing because of the grant that is
--            charged, or were prefetched
--
-- It is one piece, as Redis makes a function anew in each call, and that costs as much as what most of them would do. The
-- value is formatted by one call, and out has room for one operation, as growing costs more than filling it.
local limit, step, span = arg(), arg(), arg()
local base, lack, tick, version, since, low = limit, 0, now, now, 0, 0
local full, dirty, keep = now, false, 0 -- full: since when it is, if it is

local state = redis.pcall('GET', KEYS[1])
if state then
	local b, l, t, v, marks
	if type(state) == 'string' then
		b, l, t, v, marks = string.match(state, '^bucket (%d+) (%d+) (-?%d+) (%d+)(.*)$')
	end
	if not b then
		return conflict(KEYS[1])
	end
	base, lack, tick, version = b + 0, l + 0, t + 0, v + 0
	if marks ~= '' then
		local s, w = string.match(marks, '^ (%d+) (%d+)$')
		since, low = s + 0, w + 0
	end
	if tick > now then -- the clock went back: it counts as having stood still
		tick, dirty = now, true
	end
	full = tick
end

local new_limit, new_step, new_span = limit, step, span
if ARGV[4] + 0 == BIND then
	limit, step, span = ARGV[5] + 0, ARGV[6] + 0, ARGV[7] + 0
end
if lack > 0 and now - tick >= span then -- what has come since
	local ticks, last = floor((now - tick) / span), ceil(lack / step)
	if ticks >= last then
		lack, full = 0, tick + last * span
	else
		lack, tick = lack - ticks * step, tick + ticks * span
	end
	low = low - ticks * step
	if low <= 0 then
		since, low = 0, 0
	end
end

local out, length, blocked = {0, now, 0, 0, 0, 0, 0}, 3, false
while position < #ARGV do
	local op, done, taken, waited = arg(), 0, 0, false
	if op == TAKE then
		local n, count, flags = arg(), arg(), arg()
		if n == 0 or not blocked then
			done = max(min(floor((limit - lack) / max(n, 1)), count), 0)
		end
		blocked = blocked or done < count and flags % 2 == BLOCKS
		taken, waited = done * n, flags >= WAITED
	elseif op == GIVE or op == CHARGE then
		-- How many permits are certain to be missing still because of the grant? If no tick came since, all of them are. Else
		-- at most what the bucket would lack if nothing had been taken since and, if tokens were given back since, low.
		taken = op == CHARGE and arg() or 0
		local permits, then_tick, then_lack, v = arg(), arg(), arg(), arg()
		if v == version or since > 0 and v >= since and v < version then
			done = min(permits, lack)
			if then_tick ~= tick then
				done = min(done, then_lack - floor((now - then_tick) / span) * step)
				done = max(v == version and done or min(done, low), 0)
			end
		end
		if op == GIVE and done > 0 then
			lack = lack - done
			if since == 0 then
				since, low = version, lack
			else
				low = max(min(v == version and low or low - done, lack), 0)
			end
			version, full, dirty = max(version + 1, now), now, true
		end
	elseif op == BIND then
		-- The bucket keeps its tokens, at most the new limit, and the next come when they would have, or one new period from
		-- now. What earlier grants are owed was counted otherwise.
		position = position + 3
		if limit ~= new_limit or step ~= new_step or span ~= new_span then
			version, since, low = max(version + 1, now), 0, 0
		end
		if lack == 0 then
			base, tick = limit, now
		else
			tick = min(tick + span, now + new_span) - new_span
		end
		limit, step, span = new_limit, new_step, new_span
		if base ~= limit then
			lack = max(lack + limit - base, 0)
			base, full = limit, lack > 0 and full or now
		end
		dirty = dirty or state or lack > 0
	elseif op == PREFETCH then
		done = min(arg(), floor(max(limit - lack, 0) / 2))
		taken = done
	elseif op == RESET then
		-- For a while the version is kept, for grants of this very instant.
		lack, since, low, full, version, keep, dirty = 0, 0, 0, now, max(version + 1, now), 1000, true
	end
	if taken > 0 then
		if lack == 0 then
			base, tick = limit, waited and now - (now - full) % span or now
		end
		lack, dirty = min(lack + taken, most), true
	end
	out[length + 1], out[length + 2], out[length + 3], out[length + 4] = done, lack, lack > 0 and now - tick or 0, version
	length = length + 4
end

if dirty then
	if lack == 0 and keep == 0 then
		redis.call('DEL', KEYS[1])
	else
		-- A little longer than until it is full, for callers that wait until then.
		local ttl = max(ceil((min(tick + ceil(lack / step) * span, most) - now + min(span, 1000000)) / 1000), keep)
		local value = string.format('bucket %.0f %.0f %.0f %.0f', base, lack, lack > 0 and tick or full, version)
		if since > 0 then
			value = value .. string.format(' %.0f %.0f', since, low)
		end
		redis.call('SET', KEYS[1], value, 'PX', min(ttl, 3000000000000))
	end
end
return out

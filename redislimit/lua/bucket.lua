-- A token bucket.
--
-- KEYS[1]  "bucket limit lack tick version since low"; none: a full bucket.
--            limit    that lack is relative to
--            lack     tokens missing as of tick, the latest tick applied; above the limit, the bucket is in debt
--            version  changes when tokens come back other than by a tick. It is at least the instant at which the state
--                     began, so that grants of a state that is gone are none of this one
--            since    grants of the versions since .. version-1 were made before tokens were last given back; none: of none
--            low      the bucket has lacked at least so many tokens since then, less what was given back
-- ARGV     limit, tokens per period, period; then operations:
--            LOOK
--            TAKE permits count flags      count times; permits 0: is one there? BLOCKS: if it is refused, all that follow
--                                          are. WAITED: until now, for a token that came when the bucket was full
--            GIVE permits tick lack version           back, of a grant that left the bucket so
--            CHARGE permits had tick lack version     take, available or not, in addition to a grant that had permits
--            BIND limit tokens period      the options until now; comes first
--            PREFETCH permits              take at most so many, and half of what is there
--            RESET                         comes first
-- Returns  0, the instant, 0; then for each operation: done, lack, microseconds since tick, version.
--            done: how many takes were granted; how many permits were given back, were missing because of the grant that is
--            charged, or were prefetched
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
	base, lack, tick, version = tonumber(b), tonumber(l), tonumber(t), tonumber(v)
	if marks ~= '' then
		local s, w = string.match(marks, '^ (%d+) (%d+)$')
		since, low = tonumber(s), tonumber(w)
	end
	if tick > now then -- the clock went back: it counts as having stood still
		tick, dirty = now, true
	end
	full = tick
end

local function advance()
	if lack == 0 or now - tick < span then
		return
	end
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

local function take(n, flags)
	if lack == 0 then
		base, tick = limit, now
		if flags % 4 >= WAITED then
			tick = now - (now - full) % span
		end
	end
	lack, dirty = min(lack + n, most), true
end

-- owed returns how many permits of a grant are certain to be missing still. If no tick came since, that is all of them. Else
-- it is at most what the bucket would lack if nothing had been taken since and, if tokens were given back since, low.
local function owed(permits, then_tick, then_lack, v)
	local n = min(permits, lack)
	if v ~= version and (since == 0 or v < since or v > version) then
		return 0
	elseif then_tick == tick then
		return n
	end
	n = min(n, then_lack - floor((now - then_tick) / span) * step)
	return max(v == version and n or min(n, low), 0)
end

-- give gives n tokens back, of a grant of version v.
local function give(n, v)
	lack = lack - n
	if since == 0 then
		since, low = version, lack
	else
		low = max(min(v == version and low or low - n, lack), 0)
	end
	version, dirty = max(version + 1, now), true
	if lack == 0 then
		full = now
	end
end

-- bind puts the new options in force: the bucket keeps its tokens, at most the new limit, and the next come when they would
-- have, or one new period from now.
local function bind(l, s, p)
	local old, before = limit, span
	if l ~= limit or s ~= step or p ~= span then
		version, since, low = max(version + 1, now), 0, 0 -- what earlier grants are owed was counted otherwise
	end
	limit, step, span, dirty = l, s, p, state and true
	if lack == 0 then
		base, tick = old, now
	else
		tick = min(tick + before, now + span) - span
	end
	if base ~= limit then
		lack = max(lack + limit - base, 0)
		base, dirty = limit, dirty or lack > 0
		if lack == 0 then
			full = now
		end
	end
end

local head = {limit, step, span}
if tonumber(ARGV[4]) == BIND then
	limit, step, span = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
end
advance()
local out, blocked = {0, now, 0}, false
while position < #ARGV do
	local op, done = arg(), 0
	if op == TAKE then
		local n, count, flags = arg(), arg(), arg()
		if n == 0 or not blocked then
			done = max(min(floor((limit - lack) / max(n, 1)), count), 0)
		end
		blocked = blocked or done < count and flags % 2 == BLOCKS
		if done * n > 0 then
			take(done * n, flags)
		end
	elseif op == GIVE then
		local permits, t, l, v = arg(), arg(), arg(), arg()
		done = owed(permits, t, l, v)
		if done > 0 then
			give(done, v)
		end
	elseif op == CHARGE then
		local n, had, t, l, v = arg(), arg(), arg(), arg(), arg()
		done = owed(had, t, l, v)
		take(n, 0)
	elseif op == BIND then
		position = position + 3
		bind(head[1], head[2], head[3])
	elseif op == PREFETCH then
		done = min(arg(), floor(max(limit - lack, 0) / 2))
		if done > 0 then
			take(done, 0)
		end
	elseif op == RESET then
		-- For a while the version is kept, for grants of this very instant.
		lack, since, low, full, version, keep, dirty = 0, 0, 0, now, max(version + 1, now), 1000, true
	end
	local n = #out
	out[n + 1], out[n + 2], out[n + 3], out[n + 4] = done, lack, lack > 0 and now - tick or 0, version
end

if dirty then
	if lack == 0 and keep == 0 then
		redis.call('DEL', KEYS[1])
	else
		-- A little longer than until it is full, for those who wait until then.
		local ttl = max(ceil((min(tick + ceil(lack / step) * span, most) - now + min(span, 1000000)) / 1000), keep)
		local marks = since > 0 and ' ' .. text(since) .. ' ' .. text(low) or ''
		redis.call('SET', KEYS[1], 'bucket ' .. text(base) .. ' ' .. text(lack) .. ' ' .. text(lack > 0 and tick or full) .. ' ' .. text(version) .. marks,
			'PX', text(min(ttl, 3000000000000)))
	end
end
return out

-- A sliding window; a fixed one has one segment. Segment i starts at origin + i * period / segments, rounded up.
--
-- KEYS[1]  a hash: "state" is "kind calendar version at taken first last span gaps"; every other field is an instant, and has the
--          permits that come back then. So each permit counts for as long as the options of its process said when it was taken.
--            calendar     a number that identifies the calendar; 0 if there is none
--            version      changes when permits get other instants or are forgotten. It is at least the instant at which the
--                         state started.
--            at           the instant of the latest change
--            taken        the sum of all permits
--            first, last  the first and the last instant at which permits come back; 0 if there is none
--            span         the length of the windows, 0 for a calendar
--            gaps         1 if permits were returned since there are tickets, so that others may fit before these; 2 if the permits
--                         are of windows of other lengths or calendars, so that it is not known when they start to count; or 0
-- KEYS[2]  a sorted set of those instants
-- ARGV     1: fixed, 2: sliding, 3: calendar; limit, period, segments, origin (below the period), 1: report when permits come
--          back, and not only if something was refused. For a calendar the period is 0, segments is a number of windows, the origin
--          identifies the calendar, and the instants follow at which the windows start, and the end of the last. Then operations:
--            READ
--            TAKE permits count flags  count times. Permits 0: is one there? BLOCKS: if it is refused, all that follow are
--                                      refused, too. LATER: what is not there is taken all the same, and is the request's once it is
--                                      there: the last number says when, and done when it comes back, in microseconds from now. Then
--                                      count is an instant before which that is not, and it is one request. It is refused if its
--                                      window is none of those that follow.
--            GIVE permits back 0 version         return, of a grant whose permits come back at that instant
--            CHARGE permits had back 0 version   take, available or not, in addition to a grant that had permits
--            PREFETCH permits          take at most that many, and half of those available
--            RESET                     forget what is taken; goes first
--            RETURN permits            return those that would come back first, of at most 100 segments; the last number is 1 if there
--                                      may be more
-- Returns  0, the instant, microseconds until the segment ends, the instant at which what is taken now comes back, the
--          version, how many instants are reported, and for each of them microseconds from now and permits; then for each
--          operation: done, permits taken, microseconds until all are back, microseconds until what was refused could be
--          granted.
--            done: how many requests were granted; how many permits were returned or prefetched
--          Or 0 and the instant: no operation was performed, and the caller is to call again. For a calendar: with the windows around
--          that instant, because it is in none of these. Otherwise: with the same arguments, because more segments are due, or to be
--          reset, than one call removes.
--
-- Format 1. A changed format must have another kind in the state, so that older processes report a conflict.
-- Cost: TAKE and GIVE O(log n) for n segments in which permits are taken. Segments whose permits have come back since the latest call
-- are removed, once each and at most 100 in a call, so that no call blocks the server for long; if all are due, they are deleted with
-- their keys. A refusal reads the segments whose permits it needs. RETURN and RESET, a clock that goes back, and a LATER while gaps is 1
-- read at most 100 segments.
-- Invariants: taken is the sum of the hash's permits, each above 0; first and last are the ends of the sorted set, which has the
-- instants of the hash; all instants are later than the latest change.
local which = arg()
local name, calendar = which == 2 and 'sliding' or 'fixed', which == 3
local limit, span, step, origin, all = arg(), arg(), arg(), arg(), arg()
local max_listed = 20

-- All products are below 2^53, as there are at most 2^26 segments.
local function starts(i)
	local windows = floor(i / step)
	local rest, least = i - windows * step, floor(span / step) -- segments; a segment is least long, or 1 longer
	return origin + windows * span + rest * least + ceil(rest * (span - least * step) / step)
end

local function segment(at)
	local windows = floor((at - origin) / span)
	local i = windows * step + floor((at - origin - windows * span) / span * step) -- or the one beside it
	while starts(i) > at do
		i = i - 1
	end
	while starts(i + 1) <= at do
		i = i + 1
	end
	return i
end

local back, ends, windows
if calendar then
	windows = {}
	for i = 1, step + 1 do
		windows[i] = arg()
	end
else
	local current = segment(now)
	back, ends = starts(current + step), starts(current + 1)
end

-- window returns when the window starts and ends in which a grant at an instant counts; for a calendar nil if it is none of those given.
local function window(at)
	if not calendar then
		local current = segment(at)
		return starts(current), starts(current + step)
	end
	for i = 1, step do
		if windows[i] <= at and at < windows[i + 1] then
			return windows[i], windows[i + 1]
		end
	end
end

local mark, version, taken, first, last, gaps = calendar and origin or 0, now, 0, 0, 0, 0
local here = 0 -- the permits that come back at back; they are written at the end
local dirty, lives = false, 0 -- lives: how long the keys should live, in milliseconds; 0: as they do

local known = redis.pcall('HMGET', KEYS[1], 'state', calendar and 'state' or text(back))
if known.err or not known[1] and redis.call('EXISTS', KEYS[1]) == 1 then
	return conflict(KEYS[1])
end

-- values returns the permits of some instants.
local function values(instants)
	local permits = #instants > 0 and redis.call('HMGET', KEYS[1], unpack(instants)) or {}
	for i = 1, #instants do
		permits[i] = instants[i] + 0 == back and here or tonumber(permits[i]) or 0
	end
	return permits
end

-- remove forgets instants.
local function remove(instants)
	redis.call('HDEL', KEYS[1], unpack(instants))
	redis.call('ZREM', KEYS[2], unpack(instants))
	first = tonumber(redis.call('ZRANGE', KEYS[2], 0, 0)[1] or 0)
	last = tonumber(redis.call('ZRANGE', KEYS[2], -1, -1)[1] or 0)
	dirty = true
end

-- state returns the state as text.
local current = now -- the instant whose window is the current one
local function state()
	return string.format('%s %.0f %.0f %.0f %.0f %.0f %.0f %.0f %d', name, mark, version, current, taken, first, last, span, gaps)
end

local at, same_calendar = 0, false
if known[1] then
	local kind, c, v, changed, sum, from, to, length, g = string.match(known[1], '^(%a+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d)$')
	if kind ~= name then
		return conflict(KEYS[1])
	end
	same_calendar = calendar and c + 0 == mark
	version, at, taken, first, last, here = v + 0, changed + 0, sum + 0, from + 0, to + 0, not calendar and tonumber(known[2] or 0) or 0
	gaps = taken > 0 and (c + 0 == mark and length + 0 == span and g + 0 or 2) or 0
end
if calendar then
	current = same_calendar and max(now, at) or now -- the clock may go back, and a window does not
	local _, to = window(current)
	if not to then
		return {0, current}
	end
	back, ends = to, to
	here = known[1] and tonumber(redis.call('HGET', KEYS[1], text(back)) or 0) or 0
end
if (taken > 0) ~= (redis.call('EXISTS', KEYS[2]) == 1) then -- the server dropped one of the keys: the limit starts again
	redis.call('DEL', KEYS[1], KEYS[2])
	version, at, taken, first, last, here, dirty = max(version + 1, now), 0, 0, 0, 0, 0, true
end
if at > now and not same_calendar then
	-- The clock went back: it counts as having stood still. A rejected call writes that too, or the next one would
	-- count from now again, and nothing would ever come back. What is not among the first 100 instants comes back at the last.
	local instants = redis.call('ZRANGE', KEYS[2], 0, 99)
	local permits, rest = values(instants), taken
	redis.call('DEL', KEYS[1], KEYS[2])
	for i = 1, #instants do
		rest = rest - permits[i]
	end
	if rest > 0 then
		instants[#instants + 1], permits[#instants + 1] = last, rest
	end
	here, version, dirty, gaps, first, last = 0, max(version + 1, now), true, 2, 0, 0
	for i = 1, #instants do
		local later = instants[i] - (at - now)
		first, last = i == 1 and later or first, later
		here = later == back and permits[i] or here
		redis.call('HSET', KEYS[1], text(later), text(permits[i]))
		redis.call('ZADD', KEYS[2], text(later), text(later))
	end
	lives = 1
end
if taken > 0 and last <= now then
	redis.call('DEL', KEYS[1], KEYS[2])
	taken, first, last, here, dirty = 0, 0, 0, 0, true
end
if first > 0 and first <= now then
	local some = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(now), 'LIMIT', 0, 100)
	for _, n in ipairs(values(some)) do
		taken = taken - n
	end
	remove(some)
	if first > 0 and first <= now then
		redis.call('HSET', KEYS[1], 'state', state())
		return {0, now}
	end
end

-- add takes permits, which come back with the current segment.
local function add(n)
	n = min(taken + n, max_number) - taken
	if n == 0 then
		return
	end
	if here == 0 then
		redis.call('ZADD', KEYS[2], text(back), text(back))
	end
	here, taken, dirty = here + n, taken + n, true
	first = first > 0 and min(first, back) or back
	if back > last then
		last, lives = back, 1
	end
end

-- gap returns the first instant from an instant on at which n permits fit in, without a window that has more than the limit; nil if
-- that is not known. It plays when what is taken starts and ceases to count.
local function gap(n, at)
	local instants = redis.call('ZRANGE', KEYS[2], 0, 99)
	local permits, from, till, counted = values(instants), {}, 0, 0
	for i = 1, #instants do
		till = instants[i] + 0
		from[i] = till - span
		if calendar then
			from[i] = window(till - 1)
		end
		if not from[i] then
			return nil
		end
	end
	local started, ended, place, place_ends = 0, 0, nil, nil
	while true do
		while started < #instants and from[started + 1] <= at do
			started = started + 1
			counted = counted + permits[started]
		end
		while ended < #instants and instants[ended + 1] + 0 <= at do
			ended = ended + 1
			counted = counted - permits[ended]
		end
		if counted + n > limit then
			place = nil
		elseif not place then
			local _, ends = window(at)
			place, place_ends = at, ends or 0
		end
		local next = min(started < #instants and from[started + 1] or max_number, ended < #instants and instants[ended + 1] + 0 or max_number)
		if place and (next >= place_ends or next == max_number) then
			-- What was not read starts to count later than all that was.
			return (till == last or place_ends <= from[#instants]) and place or nil
		elseif next == max_number then
			return nil
		end
		at = next
	end
end

-- add_later takes permits that are there after wait, but not before an instant. It returns how long it takes until they come back, 0 if it
-- cannot take them, and until they are there.
local function add_later(n, wait, least)
	if wait == 0 or taken + n > max_number then
		return 0, wait
	end
	local there = gaps == 1 and gap(n, max(current, least)) or max(now + wait, least)
	local _, at = window(there)
	if not at then
		return 0, wait
	end
	wait = max(there - now, 0)
	if at == back then
		add(n)
		return at - now, wait
	end
	local had = tonumber(redis.call('HGET', KEYS[1], text(at)) or 0)
	if had == 0 then
		redis.call('ZADD', KEYS[2], text(at), text(at))
	end
	redis.call('HSET', KEYS[1], text(at), text(had + n))
	taken, first, dirty = taken + n, first > 0 and min(first, at) or at, true
	if at > last then
		last, lives = at, 1
	end
	return at - now, wait
end

-- give returns up to n permits of those that come back at an instant, and returns how many.
local function give(n, at)
	local had = values({text(at)})[1]
	n = min(n, had)
	if n == 0 then
		return 0
	end
	taken, dirty = taken - n, true
	if at == back then
		here = here - n
	elseif n < had then
		redis.call('HSET', KEYS[1], text(at), text(had - n))
	end
	if n == had then
		remove({text(at)})
	end
	return n
end

-- come_back returns how long it takes until need permits have come back.
local function come_back(need)
	local from = 0
	while need > 0 do
		local some = redis.call('ZRANGE', KEYS[2], from, from + max_listed - 1)
		if #some == 0 then
			return 0
		end
		for i, n in ipairs(values(some)) do
			need = need - n
			if need <= 0 then
				return some[i] - now
			end
		end
		from = from + #some
	end
	return 0
end

local results, blocked, placed = {}, false, now -- placed: the latest ticket is due then
while position < #ARGV do
	local op, done, retry = arg(), 0, 0
	if op == TAKE then
		local n, count, flags = arg(), arg(), arg()
		if flags >= LATER then
			placed, count = max(placed, count), 1
		end
		if n == 0 or not blocked then
			done = max(min(floor((limit - taken) / max(n, 1)), count), 0)
		end
		add(done * n)
		if done < count then
			retry = come_back(max(n, 1) - (limit - taken))
			local comes_back = 0
			if flags >= LATER and not blocked then
				comes_back, retry = add_later(n, retry, placed)
			end
			if comes_back > 0 then
				done, placed = comes_back, now + retry
			else
				blocked, all = blocked or flags % 2 == BLOCKS, 1
			end
		end
	elseif op == GIVE then
		local n, at, _, grant_version = arg(), arg(), arg(), arg()
		done = grant_version == version and give(n, at) or 0
	elseif op == CHARGE then
		local n, had = arg(), arg()
		position = position + 3
		add(n)
		done = had
	elseif op == PREFETCH then
		done = min(arg(), floor(max(limit - taken, 0) / 2))
		add(done)
	elseif op == RESET then
		-- The version is kept for as long as an earlier grant's permits would count. Tickets that are not due stay.
		if last <= back then
			redis.call('DEL', KEYS[1], KEYS[2])
			taken, first, last = 0, 0, 0
		else
			local some = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(back), 'LIMIT', 0, 100)
			for _, n in ipairs(values(some)) do
				taken = taken - n
			end
			if #some > 0 then
				remove(some)
			end
			if first <= back then
				redis.call('HSET', KEYS[1], 'state', state())
				return {0, now}
			end
		end
		done, here = 1, 0
		version, dirty, lives = max(version + 1, now), true, ceil((back - now) / 1000)
	elseif op == RETURN then
		local n = min(arg(), taken)
		local some, gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', text(back), 'LIMIT', 0, 100), {} -- and no ticket that is not due
		local permits = values(some)
		while #gone < #some and done + permits[#gone + 1] <= n do
			gone[#gone + 1] = some[#gone + 1]
			done = done + permits[#gone]
			here = gone[#gone] + 0 == back and 0 or here
		end
		taken = taken - done
		if #gone > 0 then
			remove(gone)
		end
		if #gone < #some then
			done = done + give(n - done, some[#gone + 1] + 0)
		elseif done < n and #some == 100 then
			retry = 1
		end
	end
	if last <= back then
		gaps = gaps == 2 and 2 or 0
	elseif op ~= TAKE and op ~= CHARGE and op ~= PREFETCH and done > 0 then
		gaps = max(gaps, 1)
	end
	local n = #results
	results[n + 1], results[n + 2], results[n + 3], results[n + 4] = done, taken, taken > 0 and last - now or 0, retry
end

local listed = all == 1 and taken > 0 and redis.call('ZRANGE', KEYS[2], 0, max_listed - 1) or {}
local permits = values(listed)

if dirty then
	if taken == 0 and lives <= 1 then
		redis.call('DEL', KEYS[1], KEYS[2])
	else
		if here > 0 then
			redis.call('HSET', KEYS[1], 'state', state(), text(back), text(here))
		else
			redis.call('HSET', KEYS[1], 'state', state())
		end
		if lives > 0 then
			local ttl = text(min(max(taken > 0 and ceil((last - now) / 1000) or 0, lives), 3000000000000))
			redis.call('PEXPIRE', KEYS[1], ttl)
			redis.call('PEXPIRE', KEYS[2], ttl)
		end
	end
end

local out = {0, now, ends - now, back, version, #listed}
for i = 1, #listed do
	out[#out + 1], out[#out + 2] = listed[i] - now, permits[i]
end
for i = 1, #results do
	out[#out + 1] = results[i]
end
return out

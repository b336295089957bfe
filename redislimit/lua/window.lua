-- A sliding window; a fixed one has one segment. Segment i begins at origin + i * period / segments, rounded up.
--
-- KEYS[1]  "sliding period segments origin version at;due permits;due permits;…": what was taken comes back due microseconds
--          after the instant at, the earliest first; none: nothing is taken. So each permit counts as long as the grid
--          says that it was taken by, whatever the grids of others are. The grid is the one that BIND may replace. The version
--          changes when permits are given other instants or forgotten, and is at least the instant at which the state began.
-- ARGV     1: fixed, 2: sliding, 3: fixed by the calendar; limit, period, segments, origin (below the period), 1: list all that
--          is taken, and not only if something was refused. By the calendar the period is 0 and the origin a number that stands for
--          the calendar, and four instants follow: three windows begin at the first three of them and end at the last three. If
--          the instant is in none of them, nothing is done, and 0 and the instant are returned. Then operations:
--            LOOK
--            TAKE permits count flags      count times; permits 0: is one there? BLOCKS: if it is refused, all that follow are
--            GIVE permits back 0 version   of a grant that comes back at that instant
--            CHARGE permits had back 0 version     take, available or not, in addition to a grant that had permits
--            BIND period segments origin   the grid until now: each segment goes to the new one that has its beginning; comes first
--            PREFETCH permits              take at most that many, and half of what is there
--            RESET                         comes first
--            RETURN permits                back, of whatever grants, those that would come back last first
-- Returns  0, the instant, microseconds until the segment ends, the instant at which what is taken now comes back, the
--          version, how many are listed, and each as microseconds from now and permits; then for each operation: done,
--          permits taken, microseconds until all are back, microseconds until what was refused could be granted.
--            done: how many takes were granted; how many permits were given back or returned, or were prefetched
local which = arg()
local name, calendar = which == 2 and 'sliding' or 'fixed', which == 3
local limit, span, step, origin, all = arg(), arg(), arg(), arg(), arg()
local mostListed = 100

-- All products are below 2^53, as there are at most 2^26 segments.
local function begin(i)
	local windows = floor(i / step)
	local rest, least = i - windows * step, floor(span / step) -- segments; a segment is least long, or 1 longer
	return origin + windows * span + rest * least + ceil(rest * (span - least * step) / step)
end

local function segment(at)
	local windows = floor((at - origin) / span)
	local i = windows * step + floor((at - origin - windows * span) / span * step) -- or the one beside it
	while begin(i) > at do
		i = i - 1
	end
	while begin(i + 1) <= at do
		i = i + 1
	end
	return i
end

local current, back, ends
if calendar then
	local first, second, third, last = arg(), arg(), arg(), arg()
	if now < first or now >= last then
		return {0, now}
	end
	back = now < second and second or now < third and third or last
	ends = back
else
	current = segment(now)
	back, ends = begin(current + step), begin(current + 1)
end
local grid = name .. ' ' .. text(span) .. ' ' .. text(step) .. ' ' .. text(origin)
local backs, permits, taken = {}, {}, 0 -- instants, in order, and what comes back then
local old, version, dirty, keep = grid, now, false, 0

-- add has n permits come back at an instant.
local function add(at, n)
	n = min(taken + n, most) - taken
	local i = #backs
	while i > 0 and backs[i] > at do
		i = i - 1
	end
	if backs[i] == at then
		permits[i] = permits[i] + n
	else
		table.insert(backs, i + 1, at)
		table.insert(permits, i + 1, n)
	end
	taken, dirty = taken + n, true
end

local state = redis.pcall('GET', KEYS[1])
if state then
	local as_text = type(state) == 'string' and state or ''
	local state_grid, v, at, list = string.match(as_text, '^(' .. name .. ' %d+ %d+ %d+) (%d+) (%d+);(.*)$')
	if not state_grid then
		return conflict(KEYS[1])
	end
	old, version, at = state_grid, tonumber(v), tonumber(at)
	if at > now and not (calendar and old == grid) then
		-- The clock went back: it counts as having stood still. A rejected call writes that too, or the next one would
		-- count from now again, and nothing would ever come back.
		at, version, dirty = now, max(version + 1, now), true
	end
	for due, n in string.gmatch(list, '(%d+) (%d+);') do
		if at + due > now then
			backs[#backs + 1], permits[#permits + 1] = at + due, n + 0
			taken = taken + n
		end
	end
end
if taken == 0 then
	old = grid
elseif calendar and old == grid and backs[#backs] > back then
	-- The clock went back, and a window does not.
	back, ends = backs[#backs], backs[#backs]
end

-- give gives back permits of a grant that come back at an instant, and returns how many.
local function give(n, at, grant_version)
	for i = 1, grant_version == version and #backs or 0 do
		if backs[i] == at then
			n = min(n, permits[i])
			permits[i], taken, dirty = permits[i] - n, taken - n, true
			if permits[i] == 0 then
				table.remove(backs, i)
				table.remove(permits, i)
			end
			return n
		end
	end
	return 0
end

-- bind moves what was taken to the new grid, if the state has the grid before.
local function bind(old_span, old_step, old_origin)
	if old == grid or old ~= name .. ' ' .. text(old_span) .. ' ' .. text(old_step) .. ' ' .. text(old_origin) then
		return
	end
	local old_backs, old_permits = backs, permits
	backs, permits, taken = {}, {}, 0
	for i = 1, #old_backs do
		if calendar or old_span == 0 then
			add(back, old_permits[i]) -- what a window of the calendar has taken stays taken until the new window ends
		else
			local to = segment(max(old_backs[i] - old_span, origin))
			add(begin(min(max(to, current - step + 1), current) + step), old_permits[i])
		end
	end
	old, version, dirty = grid, max(version + 1, now), true
end

-- ready returns how long it takes until need permits have come back.
local function ready(need)
	for i = 1, need > 0 and #backs or 0 do
		need = need - permits[i]
		if need <= 0 then
			return backs[i] - now
		end
	end
	return 0
end

local results, blocked = {}, false
while position < #ARGV do
	local op, done, retry = arg(), 0, 0
	if op == TAKE then
		local n, count, flags = arg(), arg(), arg()
		if n == 0 or not blocked then
			done = max(min(floor((limit - taken) / max(n, 1)), count), 0)
		end
		if done * n > 0 then
			add(back, done * n)
		end
		if done < count then
			blocked, all = blocked or flags % 2 == BLOCKS, 1
			retry = ready(max(n, 1) - (limit - taken))
		end
	elseif op == GIVE then
		local n, at, _, grant_version = arg(), arg(), arg(), arg()
		done = give(n, at, grant_version)
	elseif op == CHARGE then
		local n, had = arg(), arg()
		position = position + 3
		add(back, n)
		done = had
	elseif op == BIND then
		bind(arg(), arg(), arg())
	elseif op == PREFETCH then
		done = min(arg(), floor(max(limit - taken, 0) / 2))
		if done > 0 then
			add(back, done)
		end
	elseif op == RESET then
		-- The version is kept for as long as an earlier grant's permits would count.
		done, backs, permits, taken, old = 1, {}, {}, 0, grid
		version, keep, dirty = max(version + 1, now), ceil((back - now) / 1000), true
	elseif op == RETURN then
		local n = min(arg(), taken)
		for i = #backs, 1, -1 do
			local some = min(n - done, permits[i])
			done, permits[i], taken = done + some, permits[i] - some, taken - some
			if permits[i] == 0 then
				table.remove(backs, i)
				table.remove(permits, i)
			end
		end
		dirty = dirty or done > 0
	end
	local n = #results
	results[n + 1], results[n + 2], results[n + 3], results[n + 4] = done, taken, taken > 0 and backs[#backs] - now or 0, retry
end

if dirty then
	if taken == 0 and keep == 0 then
		redis.call('DEL', KEYS[1])
	else
		local parts = {old .. ' ' .. text(version) .. ' ' .. text(now) .. ';'}
		for i = 1, #backs do
			parts[i + 1] = text(backs[i] - now) .. ' ' .. text(permits[i]) .. ';'
		end
		local ttl = max(taken > 0 and ceil((backs[#backs] - now) / 1000) or 0, keep)
		redis.call('SET', KEYS[1], table.concat(parts), 'PX', text(min(ttl, 3000000000000)))
	end
end

local listed = all == 1 and min(#backs, mostListed) or 0
local out = {0, now, ends - now, back, version, listed}
for i = 1, listed do
	out[#out + 1], out[#out + 2] = backs[i] - now, permits[i]
end
for i = 1, #results do
	out[#out + 1] = results[i]
end
return out

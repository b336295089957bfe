-- A fixed or a sliding window. One call answers many operations, in order, at one instant of the server's clock.
--
-- KEYS[1]  the state: "fixed period segments origin taken;segment taken;segment taken;…": the grid, in microseconds, the
--          sum, and what was taken in each segment that counts, the oldest first; none: nothing is taken.
-- ARGV     1: fixed, 2: sliding; limit, period in microseconds, segments, origin (below the period), 1: tell all segments, and not only if something was refused;
--          then operations:
--          0 0 0       look
--          1 n flags   take n, or probe for 1 if n is 0; flags: 1: if refused, so is all that follows
--          2 n stamp ends 0  give back n of a grant
--          4 n 0       take up to n, at most half of what there is
--          6 n flags count  as many 1 n flags, one after the other; n is at least 1
-- Returns  0, the instant, microseconds since the segments' zero, permits taken, microseconds until the segment ends, the
--          instant at which what is taken now comes back, how many segments follow, and each with what was taken in it; then
--          for each operation: 1 or 0 (of 4 and 6: how many), permits taken, microseconds until all are back, microseconds
--          until what was refused could be granted.
-- Or       the kind of limit that the key holds: 1 bucket, 2 fixed, 3 sliding, 4 concurrency, 9 something else.
local kind = ARGV[1] == '1' and 'fixed' or 'sliding'
local limit, span, step, from = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- All products and quotients are of integers, and below 2^53: step is at most 2^26.
local function begin(i, p, s, o)
	local w = math.floor(i / s)
	local r, q = i - w * s, math.floor(p / s)
	return o + w * p + r * q + math.ceil(r * (p - q * s) / s)
end

local function segment(at, p, s, o)
	local w = math.floor((at - o) / p)
	local r = at - o - w * p
	local i = w * s + math.floor(r / p * s)
	while begin(i, p, s, o) > at do
		i = i - 1
	end
	while begin(i + 1, p, s, o) <= at do
		i = i + 1
	end
	return i
end

local function back(i)
	return begin(i + step, span, step, from)
end

local current = segment(now, span, step, from)
local taken, body, pos, dirty = 0, '', 1, false -- what counts is body from pos on

local function add(i, n, list)
	if #list > 0 and list[#list - 1] == i then
		list[#list] = list[#list] + n
	else
		list[#list + 1], list[#list + 2] = i, n
	end
end

local function parse()
	local list = {}
	for i, c in string.gmatch(string.sub(body, pos), '(%d+) (%d+);') do
		list[#list + 1], list[#list + 2] = tonumber(i), tonumber(c)
	end
	return list
end

local function unparse(list)
	local parts = {}
	taken = 0
	for j = 1, #list, 2 do
		if list[j + 1] > 0 then
			parts[#parts + 1] = string.format('%.0f %.0f;', list[j], list[j + 1])
			taken = taken + list[j + 1]
		end
	end
	body, pos, dirty = table.concat(parts), 1, true
end

local function oldest()
	local i, c, after = string.match(body, '^(%d+) (%d+);()', pos)
	return tonumber(i), tonumber(c), after
end

local function newest()
	local i, c = string.match(string.sub(body, math.max(pos, #body - 40)), '(%d+) (%d+);$')
	return tonumber(i), tonumber(c)
end

local state = redis.pcall('GET', KEYS[1])
if type(state) == 'table' then
	return {redis.call('TYPE', KEYS[1]).ok == 'zset' and 4 or 9}
elseif state then
	local k, p, s, o, sum, start = string.match(state, '^(%a+) (%d+) (%d+) (%d+) (%d+);()')
	if k ~= kind then
		k = string.match(state, '^%a+')
		return {k == 'bucket' and 1 or k == 'fixed' and 2 or k == 'sliding' and 3 or 9}
	end
	p, s, o = tonumber(p), tonumber(s), tonumber(o)
	body, pos, taken = state, start, tonumber(sum)
	if p ~= span or s ~= step or o ~= from then
		-- Another grid: each segment's permits go to the segment that has its beginning.
		local list, moved = parse(), {}
		local gone = segment(now, p, s, o) - s
		for j = 1, #list, 2 do
			if list[j] > gone then
				local i = segment(math.max(begin(list[j], p, s, o), from), span, step, from)
				add(math.min(math.max(i, current - step + 1), current), list[j + 1], moved)
			end
		end
		unparse(moved)
	else
		local i, c, after = oldest()
		while i and i <= current - step do
			taken, pos = taken - c, after
			i, c, after = oldest()
		end
		i = newest()
		if i and i > current then
			-- The clock went back: what was taken later counts as taken now.
			local list, moved = parse(), {}
			for j = 1, #list, 2 do
				add(math.min(list[j], current), list[j + 1], moved)
			end
			unparse(moved)
		end
	end
end

local function ready(need)
	local p = pos
	while true do
		local i, c, after = string.match(body, '^(%d+) (%d+);()', p)
		if not i then
			return now
		end
		need, p = need - tonumber(c), after
		if need <= 0 then
			return back(tonumber(i))
		end
	end
end

local function take(n)
	local i, c = newest()
	if i == current then
		local last = string.format('%.0f %.0f;', i, c)
		body = string.sub(body, pos, #body - #last) .. string.format('%.0f %.0f;', i, c + n)
	else
		body = string.sub(body, pos) .. string.format('%.0f %.0f;', current, n)
	end
	taken, pos, dirty = taken + n, 1, true
end

local function give(n, at)
	local i, list = segment(at, span, step, from), parse()
	if i <= current - step then
		return
	end
	-- After the grid has moved it may be an earlier one, or the oldest that counted then.
	local found = 1
	for j = 1, #list, 2 do
		if list[j] <= i then
			found = j
		end
	end
	if list[found] then
		list[found + 1] = math.max(list[found + 1] - n, 0)
		unparse(list)
	end
end

local function whole()
	local i = newest()
	return i and back(i) or now
end

local out, results, blocked, refused = {0}, {}, false, false
local k, n = 7, #ARGV
while k <= n do
	local op, a, b = ARGV[k], tonumber(ARGV[k + 1]), tonumber(ARGV[k + 2])
	local status, retry = 1, 0
	k = k + 3
	if op == '1' or op == '6' then
		local count = 1
		if op == '6' then
			count, k = tonumber(ARGV[k]), k + 1
		end
		status = math.max(math.min(math.floor((limit - taken) / math.max(a, 1)), count), 0)
		if blocked and a > 0 then
			status = 0
		end
		if status > 0 and a > 0 then
			take(status * a)
		end
		if status < count then
			local need = math.max(a, 1) - (limit - taken)
			blocked, refused = blocked or b % 2 == 1, true
			retry = need > 0 and ready(need) - now or 0
		end
	elseif op == '2' then
		if now < tonumber(ARGV[k]) then
			give(a, b)
		end
		k = k + 2
	elseif op == '4' then
		status = math.min(a, math.floor(math.max(limit - taken, 0) / 2))
		if status > 0 then
			take(status)
		end
	end
	local j = #results
	results[j + 1], results[j + 2], results[j + 3], results[j + 4] = status, taken, whole() - now, retry
end

if dirty then
	if taken == 0 then
		redis.call('DEL', KEYS[1])
	else
		redis.call('SET', KEYS[1], string.format('%s %.0f %.0f %.0f %.0f;', kind, span, step, from, taken) .. string.sub(body, pos),
			'PX', string.format('%.0f', math.min(math.ceil((whole() - now) / 1000), 3000000000000)))
	end
end

local zero = math.floor(current / step) * step
out[2], out[3], out[4] = now, now - begin(zero, span, step, from), taken
out[5], out[6], out[7] = begin(current + 1, span, step, from) - now, back(current), 0
if refused or ARGV[6] == '1' then
	local list = parse()
	out[7] = #list / 2
	for j = 1, #list, 2 do
		out[#out + 1], out[#out + 2] = list[j] - zero, list[j + 1]
	end
end
for j = 1, #results do
	out[#out + 1] = results[j]
end
return out

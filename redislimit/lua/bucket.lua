-- A token bucket. One call answers many operations, in order, at one instant of the server's clock.
--
-- KEYS[1]  the state: "bucket limit lack tick": tokens missing as of tick, the latest tick applied, in microseconds,
--          and the limit that the lack is relative to; none: full.
-- ARGV     limit, tokens per period, period in microseconds; then operations:
--          0 0 0            look
--          1 n flags        take n, or probe for 1 if n is 0; flags: 1: if refused, so is all that follows; 2: it waited
--          2 n stamp        give back n of a grant with that stamp
--          3 limit tokens period  the terms until now: put the new ones in force
--          4 n 0            take up to n, at most half of what there is
-- Returns  0, tokens missing, microseconds since the tick; then for each operation: 1 or 0 (of 4: how many), permits left,
--          microseconds until full, microseconds until it could be granted, and the grant's stamp: the instant at which
--          the bucket is full if nothing more is taken.
-- Or       the kind of limit that the key holds: 2 fixed, 3 sliding, 4 concurrency, 9 something else.
local limit, step, span = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local most = 9007199254740991

local state = redis.pcall('GET', KEYS[1])
local base, lack, tick, full, dirty = limit, 0, now, now, false
if type(state) == 'table' then
	local kind = redis.call('TYPE', KEYS[1]).ok
	return {kind == 'zset' and 4 or 9}
elseif state then
	local b, l, t = string.match(state, '^bucket (%d+) (%d+) (-?%d+)$')
	if not b then
		local kind = string.match(state, '^%a+')
		return {kind == 'fixed' and 2 or kind == 'sliding' and 3 or 9}
	end
	base, lack, tick = tonumber(b), tonumber(l), tonumber(t)
	if tick > now then -- the clock went back: it counts as having stood still
		tick, dirty = now, true
	end
end

-- All quotients are of integers below 2^53, and so their floor and ceiling are exact.
local function advance()
	if lack == 0 then
		return
	end
	local k, m = math.floor((now - tick) / span), math.ceil(lack / step)
	if k >= m then
		lack, full = 0, tick + m * span
	elseif k > 0 then
		lack, tick = lack - k * step, tick + k * span
	end
end

local function whole()
	if lack == 0 then
		return now
	end
	return math.min(tick + math.ceil(lack / step) * span, most)
end

local function rebind(l, s, p)
	local to, tokens, period = limit, step, span
	if lack > 0 then
		limit, step, span = l, s, p
		advance()
		limit, step, span = to, tokens, period
		if lack > 0 then
			local nearest = tick + math.min(p, span)
			if nearest <= now then
				nearest = math.min(tick + p, now + span)
			end
			tick = nearest - span
			dirty = true
		end
	end
	if lack == 0 then
		tick, base = now, l
	end
	if base ~= limit then
		lack = limit - math.min(math.max(base - lack, 0), limit)
		base, dirty = limit, true
	end
end

advance()
local out, blocked = {0, 0, 0}, false
local i, n = 4, #ARGV
while i <= n do
	local op, a, b = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
	i = i + 3
	local status, retry, stamp = 1, 0, 0
	if op == '1' then
		local need = math.max(a, 1) - (limit - lack)
		if need > 0 or blocked and a > 0 then
			status, blocked = 0, blocked or b % 2 == 1
			retry = math.min(tick + math.ceil(need / step) * span - now, most)
		elseif a > 0 then
			if lack == 0 then
				base, tick = limit, now
				if b >= 2 then -- it waited, and its tokens were there at full
					tick = now - (now - full) % span
				end
			end
			lack, dirty = lack + a, true
			stamp = whole()
		end
	elseif op == '2' then
		if lack > 0 and now < b then
			lack, dirty = math.max(lack - a, 0), true
			if lack == 0 then
				full = now
			end
		end
	elseif op == '3' then
		rebind(a, b, tonumber(ARGV[i]))
		i = i + 1
	elseif op == '4' then
		status = math.min(a, math.floor(math.max(limit - lack, 0) / 2))
		if status > 0 then
			if lack == 0 then
				base, tick = limit, now
			end
			lack, dirty = lack + status, true
			stamp = whole()
		end
	end
	local j = #out
	out[j + 1], out[j + 2], out[j + 3], out[j + 4], out[j + 5] =
		status, math.max(limit - lack, 0), whole() - now, math.max(retry, 0), stamp
end

if dirty then
	if lack == 0 then
		redis.call('DEL', KEYS[1])
	else
		-- A little longer than until full, for those who wait until then.
		local ttl = math.min(math.ceil((whole() - now + math.min(span, 1000000)) / 1000), 3000000000000)
		redis.call('SET', KEYS[1], string.format('bucket %.0f %.0f %.0f', base, lack, tick), 'PX', string.format('%.0f', ttl))
	end
end
out[2], out[3] = lack, now - tick
return out

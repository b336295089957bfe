-- A token bucket. One call answers many operations, in order, at one instant of the server's clock; or one take of each of
-- many buckets.
--
-- KEYS     the state of each: "bucket limit lack seconds microseconds refunds mark marked low until": the limit that the lack is
--          relative to, tokens missing as of the latest tick applied, its instant, and, if tokens were given back, how often,
--          what would be missing if nothing had been taken after the latest time, as of a tick, the least that this was for
--          those before, and until when all that matters; none: full.
-- ARGV     limit, tokens per period, period in microseconds; then operations:
--          0 0 0                    look
--          1 n flags        take n, or probe for 1 if n is 0; flags: 1: if refused, so is all that follows; 2: it waited
--          2 n stamp spare refunds  give back n of a grant
--          3 limit tokens period    the terms until now: put the new ones in force; before all else
--          4 n 0            take up to n, at most half of what there is
--          6 n flags count  as many 1 n flags, one after the other; n is at least 1
--          or, of each key, which all differ: limit, tokens per period, period and the n to take; n is at least 1; and, if
--          there is one key only, how often to take n
-- Returns  0, the instant; then for each operation: 1 or 0 (of 4, 6 and takes of n: how many), tokens missing, microseconds since the
--          tick, refunds. Of many keys, instead of 1 or 0: -1: the server failed for that key, and took nothing of it; the
--          kind of limit that it holds, less than 0.
-- Or       the kind of limit that the one key holds: 2 fixed, 3 sliding, 4 concurrency, 9 something else.
local call, match, ceil = redis.call, string.match, math.ceil
local time = call('TIME')
local seconds, micros = time[1], time[2]
local second, micro = seconds + 0, micros + 0
local now = second * 1000000 + micro

-- Takes, which are asked for most, have as few steps as can be: no function is made, as that would cost more than what
-- it does, and no number is parsed or printed that is there as text. What this can't decide is left over: buckets that
-- tokens were given back to, numbers of more than 14 digits, which a number that is joined to a string does not keep, and
-- what the server does not let it do.
local left
local out = {0, now, 0, 0, 0, 0}
local often = #ARGV == 5 and ARGV[5] + 0 or 1
if #ARGV == 4 * #KEYS or #ARGV == 5 then
	local states, a, o = redis.pcall('MGET', unpack(KEYS)), 1, 3 -- nothing, too, where there is what is no text
	for i = 1, #KEYS do
		local state, most, n, step, span = states[i], ARGV[a], ARGV[a + 3], ARGV[a + 1] + 0, ARGV[a + 2] + 0
		local base, lack, s, m, passed = most, 0, seconds, micros, 0
		if state then
			base, lack, s, m = match(state, '^bucket (%d+) (%d+) (%d+) (%d+)$')
			passed = base and (second - s) * 1000000 + micro - m or -1
			if passed >= span then
				local ticks = (passed - passed % span) / span
				lack = lack - ticks * step
				if lack > 0 then
					passed = passed - ticks * span
					local tick = now - passed
					m = tick % 1000000
					s = (tick - m) / 1000000
				else
					base, lack, s, m, passed = most, 0, seconds, micros, 0
				end
			end
		end
		local granted
		if passed >= 0 then
			local after = lack + n * often
			if after <= most + 0 then
				local full = ceil(after / step) * span - passed
				if after < 100000000000000 and full < 1000000000000000 then
					local text = 'bucket ' .. base .. ' ' .. after .. ' ' .. s .. ' ' .. m
					local ttl, set = ceil((full + (span < 1000000 and span or 1000000)) / 1000), nil
					if state then
						set = redis.pcall('SET', KEYS[i], text, 'PX', ttl)
					else
						set = redis.pcall('SET', KEYS[i], text, 'PX', ttl, 'NX') -- it may be of another kind
					end
					if set and set.ok then
						granted, lack = often, after
					end
				end
			elseif state and often == 1 then
				granted, lack = 0, lack + 0
			end
		end
		if granted then
			out[o], out[o + 1], out[o + 2], out[o + 3] = granted, lack, passed, 0
		else
			left = left or {}
			left[#left + 1] = i
		end
		a, o = a + 4, o + 4
	end
	if not left then
		return out
	end
end

-- decide does all that ARGV of one key can ask for.
local function decide(key, args)
	local state = redis.pcall('GET', key)
	local limit, step, span = tonumber(args[1]), tonumber(args[2]), tonumber(args[3])
	local most = 9007199254740991
	local base, lack, tick, full, dirty = limit, 0, now, now, false
	local refunds, mark, marked, low, till = 0, 0, 0, 0, 0
	if type(state) == 'table' then
		local kind = call('TYPE', key).ok
		return {kind == 'zset' and 4 or 9}
	elseif state then
		local b, l, s, m, rest = match(state, '^bucket (%d+) (%d+) (-?%d+) (%d+)(.*)$')
		if not b then
			local kind = match(state, '^%a+')
			return {kind == 'fixed' and 2 or kind == 'sliding' and 3 or 9}
		end
		base, lack, tick = tonumber(b), tonumber(l), s * 1000000 + m
		if rest ~= '' then
			local r, k, d, w, u = match(rest, '^ (%d+) (%d+) (-?%d+) (%d+) (%d+)$')
			if not r then
				return {9}
			end
			refunds, mark, marked, low, till = tonumber(r), tonumber(k), tonumber(d), tonumber(w), tonumber(u)
		end
		if tick > now then -- the clock went back: it counts as having stood still
			tick, dirty = now, true
		end
		full = tick -- if it is
		if till <= now then
			refunds = 0
		end
	end

	-- All quotients are of integers below 2^53, and so their floor and ceiling are exact.
	local function advance()
		if refunds > 0 and mark > 0 then
			mark = math.max(mark - math.floor(math.max(now - marked, 0) / span) * step, 0)
			marked = marked + math.floor(math.max(now - marked, 0) / span) * span
		end
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

	-- returned notes that tokens came by no tick, and when the bucket would have been full without.
	local function returned(without)
		if refunds > 0 then
			low = refunds == 1 and mark or math.min(low, mark)
		end
		mark, marked = lack, tick
		till = refunds == 0 and without or math.max(till, without)
		refunds, dirty = refunds + 1, true
		if lack == 0 then
			full = now
		end
	end

	-- owed returns how much the bucket still lacks because of a grant of n: at most what it would lack if nothing had been
	-- taken since, and what it has always lacked since, as far as the marks tell.
	local function owed(n, whole, spare, before)
		n = math.min(n, math.ceil((whole - now) / span) * step - spare, lack)
		if refunds > before then
			n = math.min(n, mark)
		end
		if refunds > before + 1 then
			n = math.min(n, low)
		end
		return math.max(n, 0)
	end

	local function whole()
		if lack == 0 then
			return now
		end
		return math.min(tick + math.ceil(lack / step) * span, most)
	end

	-- rebind puts new terms in force: the bucket keeps its tokens, at most the new limit, and the next come when they would
	-- have, or one new period from now.
	local function rebind(l, s, p)
		local old, before = limit, span
		limit, step, span = l, s, p
		dirty = dirty or state -- it is written by other terms
		if lack == 0 then
			base, tick = old, now
		else
			tick = math.min(tick + before, now + span) - span
		end
		if base ~= limit then
			local without = whole()
			lack = limit - math.min(math.max(base - lack, 0), limit)
			base = limit
			returned(without)
		end
	end

	if args[4] == '3' then -- until then the old terms hold
		limit, step, span = tonumber(args[5]), tonumber(args[6]), tonumber(args[7])
	end
	advance()
	local out, blocked = {0, now}, false
	local i, n = 4, #args
	while i <= n do
		local op, a, b = args[i], tonumber(args[i + 1]), tonumber(args[i + 2])
		i = i + 3
		local status = 1
		if op == '1' or op == '6' then
			local count = 1
			if op == '6' then
				count, i = tonumber(args[i]), i + 1
			end
			status = math.max(math.min(math.floor((limit - lack) / math.max(a, 1)), count), 0)
			if blocked and a > 0 then
				status = 0
			end
			if status < count then
				blocked = blocked or b % 2 == 1
			end
			if status > 0 and a > 0 then
				if lack == 0 then
					base, tick = limit, now
					if b >= 2 then -- it waited, and its tokens were there at full
						tick = now - (now - full) % span
					end
				end
				lack, dirty = lack + status * a, true
			end
		elseif op == '2' then
			local back = 0
			if lack > 0 and now < b then
				back = owed(a, b, tonumber(args[i]), tonumber(args[i + 1]))
			end
			i = i + 2
			if back > 0 then
				local without = whole()
				lack = lack - back
				returned(without)
			end
		elseif op == '3' then
			i = i + 1
			local new = args[i] == '3' and i or 0 -- another follows, with the terms that this one brought
			rebind(tonumber(args[new + 1]), tonumber(args[new + 2]), tonumber(args[new + 3]))
		elseif op == '4' then
			status = math.min(a, math.floor(math.max(limit - lack, 0) / 2))
			if status > 0 then
				if lack == 0 then
					base, tick = limit, now
				end
				lack, dirty = lack + status, true
			end
		end
		local j = #out
		out[j + 1], out[j + 2], out[j + 3], out[j + 4] = status, lack, now - tick, refunds
	end

	if dirty then
		if lack == 0 then
			tick = full
		end
		if lack == 0 and (refunds == 0 or till <= now) then
			call('DEL', key)
		else
			-- A little longer than until full, for those who wait until then.
			local last = math.max(whole(), refunds > 0 and till or 0)
			local ttl = math.min(math.ceil((last - now + math.min(span, 1000000)) / 1000), 3000000000000)
			local text = string.format('bucket %.0f %.0f %.0f %.0f', base, lack, math.floor(tick / 1000000), tick % 1000000)
			if refunds > 0 then
				text = text .. string.format(' %.0f %.0f %.0f %.0f %.0f', refunds, mark, marked, low, till)
			end
			call('SET', key, text, 'PX', string.format('%.0f', ttl))
		end
	end
	return out
end

if not left then
	return decide(KEYS[1], ARGV)
end
for _, i in ipairs(left) do
	local a, o = 4 * i - 3, 4 * i - 1
	local args = {ARGV[a], ARGV[a + 1], ARGV[a + 2], '6', ARGV[a + 3], '0', often}
	if #KEYS == 1 then
		return decide(KEYS[1], args)
	end
	local done, one = pcall(decide, KEYS[i], args)
	if not done then
		one = {0, now, -1, 0, 0, 0}
	elseif #one == 1 then
		one = {0, now, -one[1], 0, 0, 0}
	end
	out[o], out[o + 1], out[o + 2], out[o + 3] = one[3], one[4], one[5], one[6]
end
return out

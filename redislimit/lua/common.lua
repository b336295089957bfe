-- The part that the scripts share; each of them starts with this text. A script performs all operations of a call, in order, at one
-- instant of the server's clock. All numbers are integers below 2^53, so that sums, differences, and the floor and ceiling of
-- quotients are exact. Instants are microseconds.
local max_number = 9007199254740991
local READ, TAKE, GIVE, CHARGE, PREFETCH, RENEW, RELEASE, RESET, RETURN, CANCEL = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
local BLOCKS, WAITED, LATER = 1, 2, 4 -- flags of TAKE
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local ARGV, position = ARGV, 0
local function arg()
	position = position + 1
	return ARGV[position] + 0
end

-- text returns an integer as text. Converted by Lua, a number would keep only 14 digits.
local function text(n)
	return n > -100000000000000 and n < 100000000000000 and n or string.format('%.0f', n)
end

-- conflict returns the reply for a key that holds another kind of limit.
local function conflict(key)
	local kind = redis.call('TYPE', key).ok
	if kind == 'zset' then
		return {4}
	end
	local value = kind == 'string' and redis.call('GET', key) or kind == 'hash' and redis.call('HGET', key, 'state')
	local word = value and string.match(value, '^%w+')
	return {word == 'bucket' and 1 or word == 'fixed' and 2 or word == 'sliding' and 3 or 9}
end

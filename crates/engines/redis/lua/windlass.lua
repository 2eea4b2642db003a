-- The functions of a Windlass store. `prefix`, the beginning of their names, is set before. They know keys, commands and replies, and nothing of jobs.
--
-- A command is a name, the number of its arguments, and the arguments; KEYS[i] is the key of the i-th command. The
-- first character of a read says whether a commit verifies its reply ('=') or not ('?').

-- Commands that Redis does not have.
local commands = {}

-- Counts in a field of a hash, and deletes the field at zero.
function commands.COUNT(key, argv, at)
  if redis.call('HINCRBY', key, argv[at], argv[at + 1]) == 0 then
    redis.call('HDEL', key, argv[at])
  end
end

-- Counts `argv[at + 3]` under (scope, name, rest) in a hash, with at most `argv[at + 5]` distinct names per scope;
-- further names are counted as `argv[at + 4]`, which does not count as a name. An empty name is none.
function commands.TALLY(key, argv, at)
  local scope, name, rest, by = argv[at], argv[at + 1], argv[at + 2], argv[at + 3]
  local other, most = argv[at + 4], tonumber(argv[at + 5])
  if name ~= '' and name ~= other then
    local known = 'n' .. scope .. '\0' .. name
    if redis.call('HEXISTS', key, known) == 0 then
      local names = tonumber(redis.call('HGET', key, 's' .. scope) or 0)
      if names < most then
        redis.call('HINCRBY', key, 's' .. scope, 1)
        redis.call('HSET', key, known, 1)
      else
        name = other
      end
    end
  end
  redis.call('HINCRBY', key, 'c' .. scope .. '\0' .. rest .. '\0' .. name, by)
end

-- Whether the last RESCORE left members.
local left = false

-- Gives those of the first `argv[at + 2]` members of a sorted set that begin with `argv[at + 1]` the score `argv[at]`.
function commands.RESCORE(key, argv, at)
  local score, prefix, most = argv[at], argv[at + 1], tonumber(argv[at + 2])
  left = redis.call('ZCARD', key) > most
  for _, member in ipairs(redis.call('ZRANGE', key, 0, most - 1)) do
    if string.sub(member, 1, #prefix) == prefix then
      redis.call('ZADD', key, score, member)
    end
  end
end

-- Sets a field of a hash if the RESCORE before it left members.
function commands.LEFT(key, argv, at)
  if left then
    redis.call('HSET', key, argv[at], argv[at + 1])
  end
end

-- Whether a byte string comes before another; `<` depends on the locale of the server.
local function before(one, two)
  for i = 1, math.min(#one, #two) do
    local a, b = string.byte(one, i), string.byte(two, i)
    if a ~= b then
      return a < b
    end
  end
  return #one < #two
end

-- Up to `argv[at + 2]` members of a sorted set, with scores, after the position (score `argv[at]`, member `argv[at + 1]`);
-- from the beginning if the score is empty; backwards if `argv[at + 3]` is 'REV'.
function commands.PAGE(key, argv, at)
  local score, member, most, backwards = argv[at], argv[at + 1], tonumber(argv[at + 2]), argv[at + 3] == 'REV'
  local size = redis.call('ZCARD', key)
  local low, high = 0, size
  if score ~= '' then
    -- The members with this score, and among them the first that does not come before the position.
    low = redis.call('ZCOUNT', key, '-inf', '(' .. score)
    high = redis.call('ZCOUNT', key, '-inf', score)
    while low < high do
      local middle = math.floor((low + high) / 2)
      if before(redis.call('ZRANGE', key, middle, middle)[1], member) then
        low = middle + 1
      else
        high = middle
      end
    end
    if not backwards and redis.call('ZRANGE', key, low, low)[1] == member then
      low = low + 1
    end
  elseif backwards then
    low = size
  end
  if not backwards then
    return redis.call('ZRANGE', key, low, low + most - 1, 'WITHSCORES')
  end
  if low == 0 then
    return {}
  end
  return redis.call('ZREVRANGE', key, size - low, size - low + most - 1, 'WITHSCORES')
end

-- The number of entries of a stream, and the id of the last entry that it has had; nothing if it never had one.
function commands.SPAN(key)
  local reply = {}
  if redis.call('EXISTS', key) == 1 then
    local info = redis.call('XINFO', 'STREAM', key)
    for i = 1, #info, 2 do
      if info[i] == 'length' then
        reply[1] = string.format('%.0f', info[i + 1])
      elseif info[i] == 'last-generated-id' then
        reply[2] = info[i + 1]
      end
    end
  end
  return reply
end

-- Runs the i-th command, whose name is at `at`; returns its reply and the position after it.
local function run(keys, argv, i, at, name)
  local count = tonumber(argv[at + 1])
  local own, reply = commands[name], nil
  if own then
    reply = own(keys[i], argv, at + 2)
  else
    reply = redis.call(name, keys[i], unpack(argv, at + 2, at + 1 + count))
  end
  return reply, at + 2 + count
end

-- Runs `count` reads from the i-th command on; returns the replies, the digest of those to verify, and the position
-- after them.
local function read(keys, argv, i, at, count)
  local replies, verified = {}, {}
  for n = 1, count do
    local name = argv[at]
    local reply
    reply, at = run(keys, argv, i + n - 1, at, string.sub(name, 2))
    replies[n] = reply
    if string.byte(name) == 61 then
      verified[#verified + 1] = reply
    end
  end
  return replies, redis.sha1hex(cmsgpack.pack(verified)), at
end

-- argv: the reads. Returns the time, the digest and the replies.
local function load(keys, argv)
  local replies, digest = read(keys, argv, 1, 1, #keys)
  return { redis.call('TIME'), digest, replies }
end

-- argv: the number of loads; of each load the number of its reads, the digest it returned, and the reads; then the
-- writes. Applies the writes if every load would return the same again; returns whether it did.
local function commit(keys, argv)
  local i, at, _ = 1, 2, nil
  for _ = 1, tonumber(argv[1]) do
    local count, expected, digest = tonumber(argv[at]), argv[at + 1], nil
    _, digest, at = read(keys, argv, i, at + 2, count)
    if digest ~= expected then
      return 0
    end
    i = i + count
  end
  for n = i, #keys do
    _, at = run(keys, argv, n, at, argv[at])
  end
  return 1
end

redis.register_function{ function_name = prefix .. 'load', callback = load, flags = { 'allow-oom' } }
redis.register_function{ function_name = prefix .. 'commit', callback = commit }
-- For verbs that free memory or keep workers alive.
redis.register_function{ function_name = prefix .. 'drain', callback = commit, flags = { 'allow-oom' } }

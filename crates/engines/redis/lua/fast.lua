-- The fast paths. They move plain jobs from one place to the next: whether a request, a queue or a job is plain was
-- decided before, and what a move means for the job is decided when its record is read. Each function changes nothing
-- and returns false if it finds anything else than it expects; the slow path then carries out the request.
--
-- A record is: format (1 byte), number of entry (8), time of entry (8), length of the snapshot (4), snapshot; after a
-- claim: number (8), time (8), token (16), number of the claim (8), flags (1), session (2 + n), worker (2 + n); after a
-- completion: time (8), result. The format says how far it goes.

local SNAPSHOT, CLAIMED, COMPLETED = 1, 2, 3
-- Flags of a ready job: `rows/small.rs` explains them.
local SUSPECT, PLAIN, TIED = 1, 2, 4
-- Ready jobs that are read of a lane at a time.
local HEADS = 32
-- Arguments of one command.
local MOST = 4000
-- Leases of a session that a heartbeat reads.
local HELD = 2000

-- A number below 2^53 as 8 bytes, the highest first.
local function eight(n)
  return struct.pack('>I4I4', math.floor(n / 4294967296), n % 4294967296)
end

local function number(bytes, at)
  local high, low = struct.unpack('>I4I4', bytes, at)
  return high * 4294967296 + low
end

-- The time in milliseconds: that of a test, or the server's.
local function clock(given)
  if given ~= '' then
    return tonumber(given)
  end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- The i-th number of entry under a number of the key `seq`: 2^20 entries share one.
local function entry(base, i)
  return struct.pack('>I4I4', math.floor(base / 4096), (base % 4096) * 1048576 + i)
end

-- Runs a command with any number of arguments, whose number is a multiple of four.
local function each(name, key, args)
  for first = 1, #args, MOST do
    redis.call(name, key, unpack(args, first, math.min(first + MOST - 1, #args)))
  end
end

local function values(key, fields)
  local all = {}
  for first = 1, #fields, MOST do
    local some = redis.call('HMGET', key, unpack(fields, first, math.min(first + MOST - 1, #fields)))
    for i = 1, #some do
      all[first + i - 1] = some[i]
    end
  end
  return all
end

-- keys: revision, seq, job, part, wake; of each lane: all, ready, open.
-- argv: revision, time, number of lanes, their kinds, number of given ids, these ids; of each job: lane, id, rank,
-- flags, the record from the length of its snapshot on, payload or nothing.
local function enqueue(keys, argv)
  if redis.call('GET', keys[1]) ~= argv[1] then
    return false
  end
  local lanes, at = tonumber(argv[3]), 4
  local kinds = at
  at = at + lanes
  local given = {}
  for i = 1, tonumber(argv[at]) do
    given[i] = argv[at + i]
  end
  at = at + #given + 1
  for _, known in ipairs(values(keys[3], given)) do
    if known then
      return false
    end
  end
  local now = clock(argv[2])
  local base, since = redis.call('INCR', keys[2]), eight(now)
  local jobs, parts, all, ready = {}, {}, {}, {}
  -- Scores are texts: the server formats a number for every argument.
  for i = 1, lanes do
    all[i], ready[i] = {}, {}
  end
  local head = string.char(SNAPSHOT)
  local i = 0
  while at <= #argv do
    i = i + 1
    local lane, id, seq = tonumber(argv[at]), argv[at + 1], entry(base, i)
    local n = #all[lane]
    all[lane][n + 1], all[lane][n + 2] = '0', id
    ready[lane][n + 1], ready[lane][n + 2] = argv[at + 2], seq .. id .. argv[at + 3]
    jobs[2 * i - 1], jobs[2 * i] = id, head .. seq .. since .. argv[at + 4]
    if argv[at + 5] ~= '' then
      parts[#parts + 1] = id .. 'p'
      parts[#parts + 1] = argv[at + 5]
    end
    at = at + 6
  end
  each('HSET', keys[3], jobs)
  each('HSET', keys[4], parts)
  for lane = 1, lanes do
    local of = 3 * lane + 3
    each('ZADD', keys[of], all[lane])
    each('ZADD', keys[of + 1], ready[lane])
    redis.call('SADD', keys[of + 2], argv[kinds + lane - 1])
  end
  redis.call('PUBLISH', keys[5], '')
  return now
end

-- The first `most` jobs of these lanes by rank and member; false if one of them is not plain.
local function heads(keys, first, most)
  local chunk, lanes, taken = math.min(most, HEADS), {}, {}
  for key = first, #keys, 2 do
    local found = redis.call('ZRANGE', keys[key], 0, chunk - 1, 'WITHSCORES')
    if #found > 0 then
      lanes[#lanes + 1] = { key = key, found = found, at = 1, read = chunk }
    end
  end
  while #taken < most and #lanes > 0 do
    local best, member = 1, lanes[1].found[lanes[1].at]
    local rank = #lanes > 1 and tonumber(lanes[1].found[lanes[1].at + 1])
    for i = 2, #lanes do
      local lane = lanes[i]
      local other = tonumber(lane.found[lane.at + 1])
      if other < rank or (other == rank and before(lane.found[lane.at], member)) then
        best, rank, member = i, other, lane.found[lane.at]
      end
    end
    if bit.band(string.byte(member, 25), SUSPECT + TIED) ~= 0 then
      return false
    end
    local lane = lanes[best]
    taken[#taken + 1] = { lane.key, member }
    lane.at = lane.at + 2
    if lane.at > #lane.found then
      if #lane.found == 2 * chunk then
        lane.found = redis.call('ZRANGE', keys[lane.key], lane.read, lane.read + chunk - 1, 'WITHSCORES')
        lane.at, lane.read = 1, lane.read + chunk
      else
        lane.found = {}
      end
      if #lane.found == 0 then
        table.remove(lanes, best)
      end
    end
  end
  return taken
end

-- The letters of parts, and the bits by which a ready job says that it has them.
local PARTS = { { 'p', 8 }, { 'c', 16 }, { 'b', 32 }, { 'm', 64 } }

-- keys from `i` on: session, seq, job, part, held, opening; of each lane: ready, running.
-- argv from `at` on: session, number of the claim, number of jobs, tokens, bits of the parts to return.
-- Returns the time, and of each job its id, its record, and its parts with their letters.
local function lease(keys, i, argv, at, now)
  local session, claim, most, tokens, wanted =
    argv[at], argv[at + 1], tonumber(argv[at + 2]), argv[at + 3], tonumber(argv[at + 4])
  local known = redis.call('HGET', keys[i], session)
  if not known or redis.call('EXISTS', keys[i + 5]) == 1 then
    return false
  end
  local last = '[' .. claim .. string.rep('\255', 17)
  if #redis.call('ZRANGEBYLEX', keys[i + 4], '[' .. claim, last, 'LIMIT', 0, 1) > 0 then
    return false
  end
  local taken = heads(keys, i + 6, most)
  if not taken then
    return false
  end
  local reply = { now }
  if #taken == 0 then
    return reply
  end
  local ids, fields = {}, {}
  for n, it in ipairs(taken) do
    local id, flags = string.sub(it[2], 9, 24), string.byte(it[2], 25)
    ids[n] = id
    for _, part in ipairs(PARTS) do
      if bit.band(bit.band(flags, wanted), part[2]) ~= 0 then
        fields[#fields + 1] = id .. part[1]
      end
    end
  end
  local records = values(keys[i + 2], ids)
  for n = 1, #ids do
    if not records[n] or string.byte(records[n]) ~= SNAPSHOT then
      return false
    end
  end
  local parts = values(keys[i + 3], fields)
  local worker = string.sub(known, 17, 18 + struct.unpack('>I2', known, 17))
  local who = struct.pack('>I2', #session) .. session .. worker
  local base, at_time, score = redis.call('INCR', keys[i + 1]), eight(now), string.format('%.0f', now)
  local leave, enter, jobs, held, part = {}, {}, {}, {}, 1
  local head = string.char(CLAIMED)
  for n, it in ipairs(taken) do
    local key, id, flags = it[1], ids[n], string.byte(it[2], 25)
    local into = enter[key]
    if not into then
      into = {}
      enter[key], leave[key] = into, 0
    end
    leave[key] = leave[key] + 1
    into[#into + 1] = score
    into[#into + 1] = id
    local record = head .. string.sub(records[n], 2) .. entry(base, n) .. at_time ..
      string.sub(tokens, 16 * n - 15, 16 * n) .. claim .. string.char(bit.band(flags, PLAIN)) .. who
    jobs[2 * n - 1], jobs[2 * n] = id, record
    held[2 * n - 1], held[2 * n] = '0', claim .. id
    local found = {}
    while part <= #fields and string.sub(fields[part], 1, 16) == id do
      found[#found + 1] = string.sub(fields[part], 17)
      found[#found + 1] = parts[part]
      part = part + 1
    end
    reply[#reply + 1] = id
    reply[#reply + 1] = record
    reply[#reply + 1] = found
  end
  for key, count in pairs(leave) do
    -- They were the first of their lane.
    redis.call('ZREMRANGEBYRANK', keys[key], 0, count - 1)
    each('ZADD', keys[key + 1], enter[key])
  end
  each('HSET', keys[i + 2], jobs)
  each('ZADD', keys[i + 4], held)
  return reply
end

-- keys: revision, then those of the claim. argv: revision, time, then those of the claim.
local function claim(keys, argv)
  if redis.call('GET', keys[1]) ~= argv[1] then
    return false
  end
  return lease(keys, 2, argv, 3, clock(argv[2]))
end

-- keys: revision, job; of each lane: running, completed; of each session: held; then those of the claim.
-- argv: revision, time, number of lanes, number of sessions, these sessions, number of reports; of each report: id,
-- token, lane, session, end of the record; then those of the claim, which is carried out if all reports were plain.
-- Returns the time, one character per report that says whether it was, and the reply of the claim.
local function settle(keys, argv)
  if redis.call('GET', keys[1]) ~= argv[1] then
    return false
  end
  local now = clock(argv[2])
  local lanes, sessions, at = tonumber(argv[3]), tonumber(argv[4]), 5
  local names = at - 1
  at = at + sessions
  local count, ids = tonumber(argv[at]), {}
  at = at + 1
  for n = 1, count do
    ids[n] = argv[at + 5 * (n - 1)]
  end
  local records, ended, score = values(keys[2], ids), eight(now), string.format('%.0f', now)
  local done, jobs, running, completed, held, seen = {}, {}, {}, {}, {}, {}
  local head = string.char(COMPLETED)
  for n = 1, count do
    local id, record, token = ids[n], records[n], argv[at + 1]
    local lane, session = tonumber(argv[at + 2]), tonumber(argv[at + 3])
    done[n] = '0'
    if record and string.byte(record) == CLAIMED and not seen[id] then
      -- Where the claim begins.
      local from = 22 + struct.unpack('>I4', record, 18)
      local name = struct.unpack('>I2', record, from + 41)
      local plain = string.byte(record, from + 40) == PLAIN
      if plain and string.sub(record, from + 16, from + 31) == token
        and string.sub(record, from + 43, from + 42 + name) == argv[names + session]
      then
        done[n], seen[id] = '1', true
        jobs[#jobs + 1] = id
        jobs[#jobs + 1] = head .. string.sub(record, 2) .. ended .. argv[at + 4]
        if not running[lane] then
          running[lane], completed[lane] = {}, {}
        end
        local out, into = running[lane], completed[lane]
        out[#out + 1] = id
        into[#into + 1] = score
        into[#into + 1] = id
        held[session] = held[session] or {}
        held[session][#held[session] + 1] = string.sub(record, from + 32, from + 39) .. id
      end
    end
    at = at + 5
  end
  each('HSET', keys[2], jobs)
  for lane, members in pairs(running) do
    each('ZREM', keys[2 * lane + 1], members)
    each('ZADD', keys[2 * lane + 2], completed[lane])
  end
  for session, members in pairs(held) do
    each('ZREM', keys[2 * lanes + 2 + session], members)
  end
  local claimed = false
  if #jobs == 2 * count and at <= #argv then
    claimed = lease(keys, 2 * lanes + sessions + 3, argv, at, now)
  end
  return { now, table.concat(done), claimed }
end

-- keys: session, expiry, held, job.
-- argv: time, session, highest number of a claim, unanswered claims, the declared leases: id and token of each.
-- Returns when the session expires, the time, and the lost jobs.
local function beat(keys, argv)
  local now, session, upto = clock(argv[1]), argv[2], argv[3]
  local known = redis.call('HGET', keys[1], session)
  if not known or redis.call('ZCARD', keys[3]) > HELD then
    return false
  end
  local ids = {}
  for n = 5, #argv do
    ids[n - 4] = string.sub(argv[n], 1, 16)
  end
  local records, current, lost, count = values(keys[4], ids), {}, {}, 0
  for n, id in ipairs(ids) do
    local record = records[n]
    local format = record and string.byte(record)
    local is = false
    if format == SNAPSHOT then
      return false
    elseif format == CLAIMED then
      local from = 22 + struct.unpack('>I4', record, 18)
      is = string.sub(record, from + 16, from + 31) == string.sub(argv[n + 4], 17)
      local name = struct.unpack('>I2', record, from + 41)
      if is and string.sub(record, from + 43, from + 42 + name) ~= session then
        return false
      end
    end
    if not is then
      lost[#lost + 1] = id
    elseif not current[id] then
      current[id] = true
      count = count + 1
    end
  end
  if redis.call('ZCARD', keys[3]) ~= count then
    local unanswered = {}
    for n = 1, #argv[4], 8 do
      unanswered[string.sub(argv[4], n, n + 7)] = true
    end
    for _, member in ipairs(redis.call('ZRANGE', keys[3], 0, -1)) do
      local number = string.sub(member, 1, 8)
      if not current[string.sub(member, 9)] and not unanswered[number] and not before(upto, number) then
        -- It is to be released.
        return false
      end
    end
  end
  local expires = now + number(known, 9)
  redis.call('HSET', keys[1], session, eight(expires) .. string.sub(known, 9))
  redis.call('ZADD', keys[2], expires, session)
  return { expires, now, lost }
end

redis.register_function{ function_name = prefix .. 'enqueue', callback = enqueue }
redis.register_function{ function_name = prefix .. 'claim', callback = claim, flags = { 'allow-oom' } }
redis.register_function{ function_name = prefix .. 'settle', callback = settle, flags = { 'allow-oom' } }
redis.register_function{ function_name = prefix .. 'beat', callback = beat, flags = { 'allow-oom' } }

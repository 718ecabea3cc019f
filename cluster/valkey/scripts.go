package valkey

// The scripts. Each gets one key, by which a Valkey Cluster finds the place, and the common prefix of all
// others. A record that is no JSON, or of another type, is nobody's.

// common are functions that the scripts share.
const common = `
local prefix = ARGV[1]
local function instance(id) return prefix .. 'instance:' .. id end
local function tenants(id) return instance(id) .. ':assignments' end
local function read(id)
  local text = redis.pcall('GET', instance(id))
  if type(text) ~= 'string' then return nil end
  local ok, record = pcall(cjson.decode, text)
  if ok and type(record) == 'table' and record.id == id then return record, text end
  return nil
end
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
`

// beatScript writes the record of a node and reads all others, unless another living node has its id.
// KEYS: instances. ARGV: prefix, id, address, record, TTL in ms.
// Returns: the record of the other node or "", 1 if the node had a record before and was among the instances else 0, and
// record, life left in ms of each node. A record without an end, which no node writes, has a whole life left: who waits for
// its end would ask all the time.
const beatScript = common + `
local id, address = ARGV[2], ARGV[3]
local mine, mineText = read(id)
local taken, new = '', 0
if mine and mine.address ~= address and mine.state ~= 'offline' then
  taken = mineText
else
  new = redis.call('SADD', KEYS[1], id)
  redis.call('SET', instance(id), ARGV[4], 'PX', ARGV[5])
end
local all = {}
for _, other in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local record, text = read(other)
  if record then
    all[#all + 1] = text
    local left = redis.call('PTTL', instance(other))
    if left < 0 then left = tonumber(ARGV[5]) end
    all[#all + 1] = left
  else
    redis.call('SREM', KEYS[1], other)
    redis.call('DEL', tenants(other))
  end
end
return {taken, mine and new == 0 and 1 or 0, all}
`

// leaveScript removes a node, unless the record is another's.
// KEYS: instances. ARGV: prefix, id, address.
const leaveScript = common + `
local id = ARGV[2]
local mine = read(id)
if mine and mine.address ~= ARGV[3] then return 0 end
redis.call('DEL', instance(id), tenants(id))
redis.call('SREM', KEYS[1], id)
return 1
`

// assignScript names the owner of a tenant, unless a node lives that the caller does not know: it could be the one.
// KEYS: assignment. ARGV: prefix, hash, TTL in ms, number of candidates, id and capacity of each, the best first, and
// all ids that the caller knows; none if it does not mind.
// Returns: the record of the owner or "" if no candidate lives, and the records of those that the caller does not know.
const assignScript = common + `
local hash, ttl = ARGV[2], tonumber(ARGV[3])
local candidates = 4 + 2 * tonumber(ARGV[4])
local time = now()
local function takes(record) return record and record.state ~= 'draining' and record.state ~= 'offline' end
local function give(id, text)
  redis.call('SET', KEYS[1], id, 'PX', ttl)
  redis.call('ZADD', tenants(id), time + ttl, hash)
  return {text}
end
local owner = redis.call('GET', KEYS[1])
if owner then
  local record, text = read(owner)
  if takes(record) then return give(owner, text) end
  redis.call('DEL', KEYS[1])
  redis.call('ZREM', tenants(owner), hash)
end
if #ARGV > candidates then
  local known, answer = {}, {''}
  for i = candidates + 1, #ARGV do known[ARGV[i]] = true end
  for _, id in ipairs(redis.call('SMEMBERS', prefix .. 'instances')) do
    local record, text
    if not known[id] then record, text = read(id) end
    if takes(record) then answer[#answer + 1] = text end
  end
  if #answer > 1 then return answer end
end
local best, bestText, least = nil, nil, nil
for i = 5, candidates, 2 do
  local id = ARGV[i]
  local record, text = read(id)
  if takes(record) then
    redis.call('ZREMRANGEBYSCORE', tenants(id), '-inf', time)
    local used = math.max(redis.call('ZCARD', tenants(id)), tonumber(record.active_users) or 0)
    local capacity = tonumber(record.user_capacity) or 0
    if capacity < 1 then capacity = math.max(tonumber(ARGV[i + 1]), 1) end
    if used < capacity then return give(id, text) end
    if not least or used / capacity < least then best, bestText, least = id, text, used / capacity end
  end
end
if best then return give(best, bestText) end
return {''}
`

// renewScript keeps tenants of an owner; with the flag it also takes back those that nobody has any more.
// KEYS: instances. ARGV: prefix, id, TTL in ms, flag 0 or 1, hashes.
// Returns 1 for each tenant that is the owner's, else 0; nothing if the owner has no heartbeat. An assignment of another
// type is left as it is, and its tenant with the owner.
const renewScript = common + `
local id, ttl, takeBack = ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
if not read(id) then return {} end
local time, kept = now(), {}
for i = 5, #ARGV do
  local key = prefix .. 'assignment:' .. ARGV[i]
  local owner = redis.pcall('GET', key)
  local strange = type(owner) == 'table'
  kept[#kept + 1] = strange and 1 or 0
  if owner == id or (not owner and takeBack) then
    redis.call('SET', key, id, 'PX', ttl)
    redis.call('ZADD', tenants(id), time + ttl, ARGV[i])
    kept[#kept] = 1
  end
end
return kept
`

// releaseScript gives up that an owner has tenants. An assignment of another type is left as it is.
// KEYS: instances. ARGV: prefix, owner, hashes.
const releaseScript = common + `
local id = ARGV[2]
for i = 3, #ARGV do
  local key = prefix .. 'assignment:' .. ARGV[i]
  if redis.pcall('GET', key) == id then
    redis.call('DEL', key)
    redis.call('ZREM', tenants(id), ARGV[i])
  end
end
return 1
`

-- What was learned about a worker: totals for people, and what its pool's strategy makes of it.
-- Read by releases, observations and heartbeats only; a decision never needs it.

local function read_report(id)
  local text = redis.call('HGET', REPORTS, id)
  if text then
    return cmsgpack.unpack(text)
  end
  return { requests = 0, errors = 0, bytes_read = 0, bytes_written = 0, timed = 0, timed_us = 0 }
end

local function write_report(id, report)
  redis.call('HSET', REPORTS, id, cmsgpack.pack(report))
end

local SERVED = { success = true }
local COUNTS_AS_ERROR = { warning = true, connect_failed = true, reset_before_headers = true,
  reset = true, timeout = true }

-- Only what went well tells how long a worker takes.
local function take_time(pool, worker, report, lease, outcome, us)
  if us and SERVED[outcome] then
    report.timed, report.timed_us = report.timed + 1, report.timed_us + us
    pool.strategy.learn(pool, worker, report, { kind = lease.kind, us = us })
  end
end

-- The time that counts, when the response headers of an upgrade are there.
local function time_of_handshake(pool, handshake_us)
  if pool.policy.service_time ~= SERVICE_TIMES.session then
    return handshake_us
  end
end

-- The time that counts, when a stream is over. An upgrade's handshake was told when it was made.
local function time_of_stream(pool, handshake_us, session_us)
  if pool.policy.service_time == SERVICE_TIMES.handshake then
    return handshake_us
  elseif pool.policy.service_time == SERVICE_TIMES.session or handshake_us then
    return session_us
  end
end

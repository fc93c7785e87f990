-- What was learned about a worker: totals for people, and what its pool's strategy makes of it.
-- Read by releases, observations and load reports only; a decision never needs it.

local Report = {}

Report.COUNTS_AS_ERROR = { warning = true, connect_failed = true, reset_before_headers = true,
  reset = true, timeout = true }

-- What a strategy is told of a lease, filled anew for each.
local about = { report = false, us = 0 }

-- How a lease came out, and how long it took. Only what went well tells how long a worker takes.
function Report.take(pool, worker, lease, outcome, us)
  worker.learned = true
  if Lease.tells_anew(lease, outcome) then
    Shadow.tell(pool, 'judge', worker, outcome)
  end
  if us and outcome == 'success' then
    local report = worker.report
    report.timed, report.timed_us = report.timed + 1, report.timed_us + us
    about.report, about.us = report, us
    Shadow.tell_of(pool, 'learn', worker, lease, about)
  end
end

-- The time that counts, when the response headers of an upgrade are there.
function Report.time_of_handshake(pool, handshake_us)
  if pool.policy.service_time ~= 'session' then
    return handshake_us
  end
end

-- The time that counts, when a stream is over. An upgrade's handshake was told when it was made.
function Report.time_of_stream(pool, handshake_us, session_us)
  if pool.policy.service_time == 'handshake' then
    return handshake_us
  elseif pool.policy.service_time == 'session' or handshake_us then
    return session_us
  end
end

return Report

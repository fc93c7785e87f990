-- explain: for a request that might come, what each worker is ranked by, what keeps it out, and who
-- would be chosen now. One page of workers at a time.
--
-- KEYS     the pool's keys (lib/keys.lua)
-- ARGV 1   cursor, '0' for the first page
-- ARGV 2   bytes of the request, 0 when unknown
-- ARGV 3   operation: query, execute or begin
-- ARGV 4   the worker that the request stands on, empty for none
-- Returns  explained, next cursor ('0': this was the last page), the worker that would be chosen
--          (empty: none), how many workers are to be swept before that is true, workers as JSON
--          unknown_pool    the pool has no policy
-- Uses     Page Pool Rank Worker
-- Keeps    nothing: it only reads
-- Cost     O(page), a page being about 200 workers (all of them in a small pool)

local pool = Pool.look()
if not pool then
  return { 'unknown_pool' }
end
local request = { bytes = tonumber(ARGV[2]), operation = ARGV[3], own = ARGV[4] }
local kind = pool.strategy.kind_of(pool, request)

local function gates_of(worker, own)
  local gates = {}
  local state = Page.state_of(pool, worker)
  if state ~= 'available' then
    gates[#gates + 1] = state
  elseif Worker.at_its_limit(pool, worker) then
    gates[#gates + 1] = 'lifetime'
  end
  if not Worker.has_room(pool, worker) then
    gates[#gates + 1] = 'full'
  end
  gates[#gates + 1] = own
  return gates
end

local function explained(worker)
  local inputs, gate = pool.strategy.describe(pool, worker, kind)
  local gates, rank = gates_of(worker, gate), worker.scores[kind]
  return Page.encode({
    worker = worker.id,
    gates = gates,
    inputs = inputs,
    rank = rank ~= Worker.UNRANKED and rank or nil,
    last_choice = worker.seq,
  })
end

local next_cursor, workers = Page.read(pool, ARGV[1], explained)
local chosen = Rank.choose(pool, kind, request.own)
return { 'explained', next_cursor, chosen and chosen.id or '',
  tostring(Page.due(pool)), workers }

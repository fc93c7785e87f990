-- The workers that one call concerns, each read once, with what was learned about it, and saved once,
-- however many of its leases change.

local Crew = {}

function Crew.new(pool)
  return { pool = pool, list = {}, known = {} }
end

function Crew.join(crew, worker)
  crew.known[worker.id] = worker
  crew.list[#crew.list + 1] = worker
end

function Crew.read(crew, id)
  local worker = crew.known[id]
  if worker == nil then
    worker = Worker.read_with_report(crew.pool, id) or false
    crew.known[id] = worker
    if worker then
      crew.list[#crew.list + 1] = worker
    end
  end
  return worker or nil
end

-- The worker, if this is still the life that the lease was taken on.
function Crew.of_lease(crew, lease)
  local worker = Crew.read(crew, lease.worker)
  if worker and worker.birth == lease.birth then
    return worker
  end
end

-- Saves those of whom something was learned: a lease of a former life is no event of the present one.
function Crew.save_learned(crew)
  local list = crew.list
  for i = 1, #list do
    if list[i].learned then
      Index.save(crew.pool, list[i])
    end
  end
end

function Crew.save(crew)
  local list = crew.list
  for i = 1, #list do
    Index.save(crew.pool, list[i])
  end
end

return Crew

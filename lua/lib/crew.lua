-- The workers that one call concerns, each read once, with what was learned about it, and saved once,
-- however many of its leases change.

local Crew = {}

function Crew.new()
  return { list = {}, known = {} }
end

function Crew.join(crew, worker)
  crew.known[worker.id] = worker
  crew.list[#crew.list + 1] = worker
end

function Crew.read(crew, id)
  local worker = crew.known[id]
  if worker == nil then
    worker = Worker.read_with_report(id) or false
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

function Crew.save(pool, crew)
  for _, worker in ipairs(crew.list) do
    Index.save(pool, worker)
  end
end

return Crew

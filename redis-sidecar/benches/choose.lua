-- A decision without its lease: chooses a worker and ranks it anew. The worker's leases swing between
-- none and one, so that every decision moves it in the index.
local pool = Pool.open()
local request = { bytes = 0, operation = 'query', own = '' }
local kind = pool.strategy.kind_of(pool, request)
local member = pool.strategy.choose(pool, kind, request)
local worker = Worker.read(Rank.worker_in(pool, member))
pool.seq = pool.seq + 1
worker.seq = pool.seq
if worker.active == 0 then
  worker.active = 1
  pool.strategy.taken(pool, worker, kind)
else
  worker.active = 0
  pool.strategy.left(pool, worker, { kind = kind, since = pool.now })
end
Index.save(pool, worker)
Pool.save(pool)
return { 'chosen', worker.id }

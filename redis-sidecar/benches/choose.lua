-- A decision without its lease: chooses a worker and ranks it anew. The worker's leases swing between
-- none and one, so that every decision moves it in the index.
local pool = open_pool()
local kind = pool.strategy.kind_of(pool, { bytes = 0 })
local worker = read_worker(worker_in(pool, pool.strategy.choose(pool, kind)))
pool.seq = pool.seq + 1
worker.seq = pool.seq
worker.active = 1 - worker.active
pool.strategy.taken(pool, worker)
save_worker(pool, worker)
save_pool(pool)
return { 'chosen', worker.id }

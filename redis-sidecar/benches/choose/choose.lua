-- A decision without its lease: chooses a worker and ranks it anew. The worker's leases swing between
-- none and one, so that every decision moves it in the index.
local pool = Pool.open()
local request = { bytes = 0, operation = 'query', own = '' }
local kind = pool.strategy.kind_of(pool, request)
local worker = Rank.choose(pool, kind, request.own)
local other, shadow_kind = nil, 1
if pool.shadow then
  other, shadow_kind = Shadow.choose(pool, request, Index.rank)
end
pool.seq = pool.seq + 1
worker.seq = pool.seq
if worker.active == 0 then
  worker.active = 1
  pool.strategy.taken(pool, worker, kind)
  if pool.shadow then
    Shadow.taken(pool, worker, shadow_kind)
  end
else
  worker.active = 0
  Shadow.tell_of(pool, 'left', worker, { kind = kind, shadow_kind = shadow_kind, since = pool.now })
end
if pool.shadow then
  Shadow.compare(pool, other, worker)
end
Index.save(pool, worker)
Pool.save(pool)
return { 'chosen', worker.id }

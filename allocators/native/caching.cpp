#include "caching.h"

#include <cassert>
#include <iterator>

namespace cuplug {

namespace {

using namespace policy;

uint64_t up(uint64_t nbytes) { return round_up(nbytes, ROUND); }

Pool *pool_at(const Block *piece) { return static_cast<Pool *>(piece->home); }

}  // namespace

CachingAllocator::CachingAllocator(const cuplug_upstream &table, const CachingOptions &options)
    : Allocator(table, options.memory_limit),
      options_(options),
      small_rules_{ALIGNMENT, NO_LIMIT, !options.follows_torch},
      large_rules_{options.follows_torch ? SMALL_BLOCK + 1 : ALIGNMENT, options.max_split_size,
                   !options.follows_torch},
      pressure_(!options.follows_torch && options.max_split_size == NO_LIMIT) {}

CachingAllocator::~CachingAllocator() {
  each_pool([](Pool *pool) { delete pool; });
  by_stream_.each([](Pools *pools) { delete pools; });
}

/* --- allocation and free */

uint64_t CachingAllocator::rounded(uint64_t nbytes) const {
  return rounded_to_steps(nbytes, options_.roundup_power2_divisions);
}

Block *CachingAllocator::take(uint64_t, uint64_t nbytes, uint64_t stream) {
  Pool *pool = pool_of(stream, nbytes <= SMALL_BLOCK);
  pool->prepare();
  if (!pool->small) {
    recurrence_.asked(nbytes);
    if (memory_limit() != pressure_.limit() && !is_kept(stream)) note_pressure();
    if (pressure_.is_tight(ledger_) && !is_kept(stream)) return take_where_tight(pool, nbytes);
  }
  return take(pool, nbytes);
}

Block *CachingAllocator::take(Pool *pool, uint64_t nbytes) {
  Block *piece = pool->find(nbytes);
  if (piece == nullptr && !ownerless_.empty() && adopt(pool)) piece = pool->find(nbytes);
  if (piece != nullptr && tightens(piece, pool, nbytes)) return take_where_tight(pool, nbytes);
  if (piece != nullptr && spares(piece, pool, nbytes)) {
    try {
      return grow(pool, nbytes);
    } catch (const OutOfMemory &) {
      pool->prepare();
      piece = pool->find(nbytes); /* it may be gone: room was to be made */
    }
  }
  return piece != nullptr ? pool->take(piece, nbytes) : grow(pool, nbytes);
}

Block *CachingAllocator::take_at(uint64_t address, uint64_t nbytes, uint64_t stream) {
  Pools *pools = pools_of(stream);
  if (pools == nullptr) return nullptr;
  for (Pool *pool : {pools->small, pools->large}) {
    if (pool == nullptr) continue;
    pool->prepare();
    if (Block *block = pool->take_at(address, nbytes)) return block;
  }
  return nullptr;
}

void CachingAllocator::put(Block *block) {
  Pool *pool = pool_at(block);
  pool->prepare();
  pool->put(block);
}

CachingAllocator::Pools *CachingAllocator::pools_of(uint64_t stream) {
  if (latest_ != nullptr && latest_->stream == stream) return latest_;
  Pools *found = by_stream_.find(stream);
  if (found != nullptr) latest_ = found;
  return found;
}

Pool *CachingAllocator::pool_of(uint64_t stream, bool small) {
  Pools *pools = pools_of(stream);
  if (pools == nullptr) {
    by_stream_.prepare();
    pools = new Pools{stream, nullptr, nullptr};
    by_stream_.insert(stream, pools);
  }
  Pool *&pool = small ? pools->small : pools->large;
  if (pool == nullptr) {
    pools_.reserve(pools_.size() + 1);
    pool = new Pool(stream, small, small ? small_rules_ : large_rules_, ledger_, parts_, runs_);
    pools_.push_back(pool);
  }
  return pool;
}

/* --- taking memory from upstream */

/* Whether to rather take a new segment than to break `piece`, if that is one as a whole. */
bool CachingAllocator::spares(const Block *piece, const Pool *pool, uint64_t nbytes) {
  if (pool->small || options_.follows_torch || !Pool::is_idle(piece)) return false;
  return piece->nbytes > SPARE_TIMES * std::max(nbytes, MOST_SEGMENT) &&
         2 * int64_t(ledger_.in_use()) > ledger_.most_allocated() &&
         (nbytes > MOST_SEGMENT || !recurrence_.has_repeated());
}

Block *CachingAllocator::grow(Pool *pool, uint64_t nbytes) {
  if (options_.garbage_collection_threshold != 0.0 && !is_kept(pool->stream)) collect_garbage();
  const bool movable = !options_.follows_torch && !is_kept(pool->stream);
  if (movable) note_pressure();
  const bool may_be_tight = movable && !pool->small && pressure_.is_near();
  if (may_be_tight && pressure_.is_tight(ledger_)) return take_where_tight(pool, nbytes);
  if (movable) stay_within_bounds(pool, nbytes); /* else it might have to wait, while work is being captured */
  uint64_t size = ROUND, fallback = 0; /* the segment to take, and the one to fall back on, or 0 */
  if (options_.follows_torch) {        /* PyTorch's `get_allocation_size` */
    size = pool->small                  ? TORCH_SMALL_SEGMENT
           : nbytes < TORCH_LARGE_BLOCK ? TORCH_LARGE_SEGMENT
                                        : round_up(nbytes, TORCH_ROUND);
  } else if (!pool->small) {
    const uint64_t reserved = ledger_.reserved();
    const uint64_t room = most_reserved_ > reserved ? (most_reserved_ - reserved) / ROUND * ROUND : 0;
    fallback = up(nbytes);
    size = std::max({std::min(MOST_SEGMENT, room), usual_size(nbytes), fallback});
  }
  for (; size != 0; size = fallback, fallback = 0) {
    Segment *segment = try_reserve(size, pool);
    if (segment == nullptr && options_.max_split_size != NO_LIMIT && release_oversize(pool, nbytes))
      segment = try_reserve(size, pool);
    if (segment != nullptr) return take_new(segment, pool, nbytes);
  }
  if (may_be_tight) return take_where_tight(pool, nbytes);
  Pools *pools = pools_of(pool->stream);
  if (pool->small && pools->large != nullptr && !options_.follows_torch && !any_idle()) {
    pools->large->prepare();
    Block *piece = pools->large->find(nbytes); /* nothing is left to give back: better mixed than out of memory */
    if (piece != nullptr) return pools->large->take(piece, nbytes);
  }
  throw OutOfMemory();
}

Block *CachingAllocator::take_new(Segment *segment, Pool *pool, uint64_t nbytes) {
  if (ledger_.reserved() > most_reserved_ + granted_) most_reserved_ = ledger_.reserved() - granted_;
  return pool->take_new(segment, nbytes);
}

/* The size of a segment beyond the peak, in proportion to it; 0 for a block that gets one of its own size. */
uint64_t CachingAllocator::usual_size(uint64_t nbytes) const {
  uint64_t size = LEAST_SEGMENT;
  while (size < MOST_SEGMENT && 2 * size * SEGMENTS_OF_ALL <= most_reserved_) size *= 2;
  return 3 * nbytes <= 2 * size ? size : 0;
}

Segment *CachingAllocator::try_reserve(uint64_t nbytes, Pool *pool) {
  segments_.reserve(1);
  held_.prepare();
  pool->prepare();
  try {
    uint64_t address = reserve(nbytes, pool->small, pool->stream);
    Segment *segment = segments_.take();
    segment->address = address;
    segment->nbytes = nbytes;
    held_.insert(address, segment);
    return segment;
  } catch (const OutOfMemory &) {
    return nullptr;
  }
}

/* Give back what has to go before the largest segment is taken that a block of `nbytes` could get. */
void CachingAllocator::stay_within_bounds(const Pool *pool, uint64_t nbytes) {
  const uint64_t size = pool->small ? ROUND : std::max(MOST_SEGMENT, up(nbytes));
  if (pool->small && pressure_.is_near()) {
    exchange(size, nbytes, true);
    return;
  }
  int64_t room = int64_t(most_reserved_ + granted_) - int64_t(ledger_.reserved());
  const int64_t more = int64_t(size) - room;
  if (more > 0 && may_exceed(uint64_t(more))) { /* little more than the peak, for what repeats itself */
    granted_ += uint64_t(more);
    room = int64_t(size);
  }
  make_room(size, nbytes, room, false, true);
}

/* Give idle segments back, smallest first, until `nbytes` more for a block of `asked` bytes stay within bounds: `room`
 * bytes, and the most that may ever be in use and idle. `few`: as few segments as will do. Unless they are `needed`,
 * none are given back where all would not suffice. Whether there is room. */
bool CachingAllocator::make_room(uint64_t nbytes, uint64_t asked, int64_t room, bool few, bool needed) {
  std::vector<Block *> pieces = idle(), leaving;
  int64_t total = 0;
  for (const Block *piece : pieces) total += int64_t(piece->nbytes);
  const int64_t active = int64_t(ledger_.active_bytes()), more = int64_t(nbytes);
  const int64_t peak = std::max(ledger_.most_allocated(), active + int64_t(asked));
  int64_t excess = std::max(more - room, active + more + total - peak - peak / int64_t(MOST_IDLE));
  if (!needed && total < excess) return false;
  std::sort(pieces.begin(), pieces.end(), [](const Block *a, const Block *b) { return order_of(a) < order_of(b); });
  while (excess > 0 && !pieces.empty()) {
    auto suits = [&](Block *piece) { return !few || int64_t(piece->nbytes) >= excess; };
    auto at = std::find_if(pieces.begin(), pieces.end(), suits);
    if (at == pieces.end()) --at;
    leaving.push_back(*at);
    excess -= int64_t((*at)->nbytes);
    pieces.erase(at);
  }
  give_back(leaving);
  return true;
}

/* Whether to reserve `nbytes` more beyond the peak, for a program that repeats itself. */
bool CachingAllocator::may_exceed(uint64_t nbytes) {
  return granted_ + nbytes <= most_reserved_ / BEYOND_PEAK && recurrence_.lasts();
}

/* --- where memory is tight */

/* Look how near the end of memory is. Returns how many bytes may still be taken from upstream; below 0 where the limit was
 * lowered below what is held. */
int64_t CachingAllocator::note_pressure() {
  const int64_t limit = int64_t(std::min(memory_limit(), uint64_t(INT64_MAX)));
  const int64_t left = std::min(int64_t(upstream_.free_bytes()), limit - int64_t(ledger_.reserved()));
  pressure_.note(left, memory_limit(), ledger_, recurrence_);
  return left;
}

/* Whether memory would be tight, were `piece`, if it is a segment as a whole, cut for a large block. */
bool CachingAllocator::tightens(const Block *piece, const Pool *pool, uint64_t nbytes) const {
  return !pool->small && Pool::is_idle(piece) && !is_kept(pool->stream) &&
         pressure_.is_tight(ledger_, piece->nbytes - nbytes);
}

/* Take a large block from a piece that suits it, else from a segment for it alone, or shared with few. */
Block *CachingAllocator::take_where_tight(Pool *pool, uint64_t nbytes) {
  if (!ownerless_.empty()) adopt(pool);
  uint64_t least = up(nbytes);
  bool own = nbytes >= LEAST_SEGMENT && (least - nbytes) * OWN_WASTE <= nbytes;
  Block *piece = own ? pool->smallest(nbytes) : pool->find(nbytes);
  if (piece != nullptr) {
    const bool is_shared =
        !own && piece->nbytes >= std::min(2 * nbytes, MOST_SEGMENT) && piece->nbytes <= 2 * MOST_SEGMENT;
    const bool suits = is_shared || piece->nbytes - nbytes <= nbytes / OWN_WASTE;
    if (suits || !(own || Pool::is_idle(piece))) return pool->take(piece, nbytes);
    own = true; /* rather than to break an idle segment of another size */
  }
  uint64_t size = own ? least : std::max(MOST_SEGMENT, least), fallback = own ? 0 : least;
  for (; size != 0; size = fallback, fallback = 0) {
    if (!exchange(size, nbytes, piece == nullptr)) continue;
    if (Segment *segment = try_reserve(size, pool)) return take_new(segment, pool, nbytes);
  }
  pool->prepare();
  piece = pool->find(nbytes);
  if (piece == nullptr) throw OutOfMemory();
  return pool->take(piece, nbytes);
}

/* `make_room`, where a program that repeats itself may take all that is left, others no more than their peak. */
bool CachingAllocator::exchange(uint64_t nbytes, uint64_t asked, bool needed) {
  const int64_t left = note_pressure();
  const int64_t most = int64_t(most_reserved_) - int64_t(ledger_.reserved());
  return make_room(nbytes, asked, recurrence_.goes_on() ? left : std::min(left, most), true, needed);
}

/* --- giving memory back */

uint64_t CachingAllocator::release_unused() {
  uint64_t released = give_back(idle());
  drop_empty_pools();
  return released;
}

void CachingAllocator::release_left(uint64_t stream) {
  std::vector<Block *> pieces;
  for (const Pool *pool : ownerless_)
    if (pool->stream == stream) pool->idle(pieces);
  give_back(pieces);
  drop_empty_pools();
}

void CachingAllocator::drop_empty_pools() {
  auto left =
      std::stable_partition(ownerless_.begin(), ownerless_.end(), [](Pool *pool) { return pool->has_segments(); });
  std::for_each(left, ownerless_.end(), [](Pool *pool) { delete pool; });
  ownerless_.erase(left, ownerless_.end());
}

/* Wait for the work queued on `pieces`, which are segments as a whole, and give them back. Returns their bytes. */
uint64_t CachingAllocator::give_back(const std::vector<Block *> &pieces) {
  std::vector<Pool *> waited;
  for (const Block *piece : pieces) {
    Pool *pool = pool_at(piece);
    if (std::find(waited.begin(), waited.end(), pool) != waited.end()) continue;
    waited.push_back(pool);
    FenceRef fence = pool->fence ? pool->fence : upstream_.fence(pool->stream);
    fence.wait();
  }
  uint64_t released = 0;
  for (const Block *piece : pieces) {
    Segment *segment = held_.find(piece->address);
    Pool *pool = segment->pool;
    release(segment->address, segment->nbytes, pool->small, pool->stream);
    held_.erase(segment->address);
    pool->remove(segment);
    released += segment->nbytes;
    segments_.give(segment);
  }
  return released;
}

bool CachingAllocator::any_idle() const {
  bool any = false;
  each_movable_pool([&](const Pool *pool) { any = any || pool->has_idle(); });
  return any;
}

std::vector<Block *> CachingAllocator::idle() const {
  std::vector<Block *> found;
  each_movable_pool([&](const Pool *pool) { pool->idle(found); });
  return found;
}

/* PyTorch's `garbage_collect_cached_blocks`: idle large segments of at least the average age go. */
void CachingAllocator::collect_garbage() {
  uint64_t limit = memory_limit();
  if (limit == NO_LIMIT) {
    if (options_.follows_torch) return; /* PyTorch's collects nothing where no fraction of the memory was set */
    limit = upstream_.total_bytes();
  }
  int64_t excess = int64_t(ledger_.reserved()) - int64_t(options_.garbage_collection_threshold * double(limit));
  if (excess <= 0) return;
  std::vector<Block *> pieces = idle();
  drop_if(pieces, [](const Block *piece) { return pool_at(piece)->small; });
  auto age = [](const Block *piece) { return pool_at(piece)->searches - piece->stamp; };
  while (excess > 0 && !pieces.empty()) {
    uint64_t total = 0;
    for (const Block *piece : pieces) total += age(piece);
    uint64_t average = total / pieces.size();
    std::vector<Block *> leaving, staying;
    for (Block *piece : pieces) {
      bool leaves = excess > 0 && age(piece) >= average;
      (leaves ? leaving : staying).push_back(piece);
      if (leaves) excess -= int64_t(piece->nbytes);
    }
    give_back(leaving);
    pieces.swap(staying);
  }
}

/* PyTorch's `release_available_cached_blocks`: make room for a request from idle oversize segments. */
bool CachingAllocator::release_oversize(Pool *pool, uint64_t nbytes) {
  if (is_kept(pool->stream)) return false;
  uint64_t wanted = std::max(nbytes, options_.max_split_size), total = 0;
  std::vector<Block *> pieces, leaving;
  pool->idle(pieces);
  pieces.erase(pieces.begin(), std::find_if(pieces.begin(), pieces.end(), [&](const Block *piece) {
                 return piece->nbytes >= options_.max_split_size;
               }));
  auto first = std::find_if(pieces.begin(), pieces.end(), [&](const Block *piece) { return piece->nbytes >= wanted; });
  if (first != pieces.end()) {
    leaving.push_back(*first);
    total = (*first)->nbytes;
  } else {
    for (; !pieces.empty() && total < wanted; pieces.pop_back()) {
      leaving.push_back(pieces.back());
      total += pieces.back()->nbytes;
    }
  }
  give_back(leaving);
  return total >= wanted;
}

/* --- streams that are destroyed */

void CachingAllocator::forget(uint64_t stream) {
  Pools *pools = pools_of(stream);
  if (pools == nullptr) return;
  FenceRef fence; /* made first, since nothing may have changed where the driver refuses it */
  for (const Pool *pool : {pools->small, pools->large})
    if (!fence && pool != nullptr && pool->has_segments()) fence = upstream_.fence(stream);
  for (Pool *pool : {pools->small, pools->large}) {
    if (pool == nullptr) continue;
    pools_.erase(std::find(pools_.begin(), pools_.end(), pool));
    if (!pool->has_segments()) {
      delete pool;
      continue;
    }
    pool->fence = fence;
    ownerless_.push_back(pool);
  }
  latest_ = nullptr;
  by_stream_.erase(stream);
  delete pools;
}

/* Take over what destroyed streams have left and have done with. Whether there was any. */
bool CachingAllocator::adopt(Pool *pool) {
  std::vector<Pool *> ready;
  for (Pool *left : ownerless_)
    if (left->small == pool->small && left->fence && left->fence.done()) ready.push_back(left);
  for (Pool *left : ready) {
    ownerless_.erase(std::find(ownerless_.begin(), ownerless_.end(), left));
    pool->absorb(*left);
    delete left;
  }
  return !ready.empty();
}

/* --- the map */

void CachingAllocator::map_segments(std::vector<cuplug_segment> &segments, std::vector<cuplug_piece> &pieces) {
  each_pool([&](const Pool *pool) {
    pool->each_segment([&](const Segment *segment) {
      size_t first = pieces.size();
      for (const Block *part = segment->first; part != nullptr; part = part->after) add_piece(pieces, part);
      segments.push_back(
          {segment->address, segment->nbytes, pool->stream, first, pieces.size() - first, pool->small, 0});
    });
  });
}

}  // namespace cuplug

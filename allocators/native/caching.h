/* `caching`: keeps what was freed, for each stream, and hands it out again (caching.py). */
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "allocator.h"
#include "free_pieces.h"
#include "pressure.h"
#include "recurrence.h"

namespace cuplug {

/* As the constructor of CachingAllocator. NO_LIMIT and a negative fraction mean that an option was not given. */
struct CachingOptions {
  bool follows_torch = false;
  uint64_t memory_limit = NO_LIMIT;
  double garbage_collection_threshold = 0.0;
  uint64_t max_split_size = NO_LIMIT;
  uint64_t roundup_power2_divisions = 0;
};

class CachingAllocator final : public Allocator {
 public:
  CachingAllocator(const cuplug_upstream &table, const CachingOptions &options);
  ~CachingAllocator() override;

 protected:
  Block *take(uint64_t requested, uint64_t nbytes, uint64_t stream) override;
  Block *take_at(uint64_t address, uint64_t nbytes, uint64_t stream) override;
  void put(Block *block) override;
  uint64_t release_unused() override;
  void release_left(uint64_t stream) override;
  void map_segments(std::vector<cuplug_segment> &segments, std::vector<cuplug_piece> &pieces) override;
  uint64_t rounded(uint64_t nbytes) const override;
  void forget(uint64_t stream) override;
  bool keep_whole() override {
    small_rules_.remainder = large_rules_.remainder = NO_LIMIT;
    return true;
  }

 private:
  /* The pools of one stream; null where nothing was asked for. */
  struct Pools {
    uint64_t stream = 0;
    Pool *small = nullptr;
    Pool *large = nullptr;
  };

  Pool *pool_of(uint64_t stream, bool small);
  Pools *pools_of(uint64_t stream);
  Block *take(Pool *pool, uint64_t nbytes);
  Block *take_where_tight(Pool *pool, uint64_t nbytes);
  Block *grow(Pool *pool, uint64_t nbytes);
  Block *take_new(Segment *segment, Pool *pool, uint64_t nbytes);
  int64_t note_pressure();
  void stay_within_bounds(const Pool *pool, uint64_t nbytes);
  bool tightens(const Block *piece, const Pool *pool, uint64_t nbytes) const;
  bool exchange(uint64_t nbytes, uint64_t asked, bool needed);
  bool spares(const Block *piece, const Pool *pool, uint64_t nbytes);
  uint64_t usual_size(uint64_t nbytes) const;
  Segment *try_reserve(uint64_t nbytes, Pool *pool);
  bool make_room(uint64_t nbytes, uint64_t asked, int64_t room, bool few, bool needed);
  bool may_exceed(uint64_t nbytes);
  void collect_garbage();
  bool release_oversize(Pool *pool, uint64_t nbytes);
  bool adopt(Pool *pool);
  bool any_idle() const;
  std::vector<Block *> idle() const;
  uint64_t give_back(const std::vector<Block *> &pieces);
  void drop_empty_pools(); /* of streams that have been destroyed */
  template <class Work>
  void each_pool(Work work) const {
    for (Pool *pool : pools_) work(pool);
    for (Pool *pool : ownerless_) work(pool);
  }
  /* The pools whose memory may be given back. */
  template <class Work>
  void each_movable_pool(Work work) const {
    each_pool([&](const Pool *pool) {
      if (!is_kept(pool->stream) || pool->fence) work(pool);
    });
  }

  CachingOptions options_;
  Rules small_rules_, large_rules_;
  Pools *latest_ = nullptr; /* those used last */
  Table<Pools> by_stream_;
  std::vector<Pool *> pools_;     /* in the order in which they were made */
  std::vector<Pool *> ownerless_; /* of streams that have been destroyed */
  Table<Segment> held_;           /* by address: everything from upstream */
  Store<Segment, 64> segments_;
  uint64_t most_reserved_ = 0; /* besides what was granted */
  uint64_t granted_ = 0;       /* bytes beyond that, to let a program that repeats itself come to rest */
  Recurrence recurrence_;
  Pressure pressure_;
};

}  // namespace cuplug

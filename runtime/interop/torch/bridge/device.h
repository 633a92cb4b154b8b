/* One device under PyTorch: its memory in cuplug's core, its private pools, its history. */
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core.h"
#include "history.h"
#include "own_memory.h"
#include "pools.h"
#include "shared_pages.h"
#include "versions.h"

namespace cuplug_torch {

/* Where a device's allocator in the core comes from: asked once for each device, when memory is needed there first.
 * Answers its handle, or 0 with a sentence in `message`. It may take the interpreter's lock. */
using FindHandle = uint64_t (*)(int device, char *message, size_t room);

/* Call stacks that stay with a block while it is in the program's hands. */
struct Kept {
  Context context;
};

/* The blocks of a private pool at one time, as torch.compile's graphs come back to it. */
struct Checkpoint final : AllocatorState {
  struct Entry {
    uint64_t address, nbytes, requested, stream;
  };
  MempoolId_t id;
  std::vector<Entry> blocks;
};

/* The map of what a device's allocator holds. */
class Map {
 public:
  Map(const Core &core, cuplug_allocator *allocator) : core_(core) {
    TORCH_CHECK(core.get_segments(allocator, &map_) == CUPLUG_OK, "cuplug: the map of memory cannot be had");
  }
  Map(const Map &) = delete;
  Map &operator=(const Map &) = delete;
  ~Map() { core_.map_free(map_); }

  const cuplug_segment *begin() const { return map_->segments; }
  const cuplug_segment *end() const { return map_->segments + map_->segment_count; }
  const cuplug_piece *begin_of(const cuplug_segment &segment) const { return map_->pieces + segment.first_piece; }
  const cuplug_piece *end_of(const cuplug_segment &segment) const { return begin_of(segment) + segment.piece_count; }
  const cuplug_segment *holding(uint64_t address) const {
    for (const cuplug_segment &segment : *this)
      if (address - segment.address < segment.nbytes) return &segment;
    return nullptr;
  }

 private:
  const Core &core_;
  cuplug_map *map_ = nullptr;
};

/* Where a block stands: in the device's memory, or in that of a private pool that brought an allocator. */
struct Place {
  cuplug_allocator *allocator;
  cuplug_block *block; /* null for none */
};

class Device {
 public:
  Device(const Core &core, FindHandle find, DeviceIndex index)
      : history(index, pools), core_(core), find_(find), index_(index) {}

  void *allocate(size_t nbytes, cudaStream_t stream);
  /* Free the block at `address`, if there is one here. */
  bool free(void *address);
  /* Whether its allocator was closed: it has taken every block back then. */
  bool is_closed() const { return if_used() != nullptr && core_.allocator_state(if_used()) != CUPLUG_OPEN; }
  /* Whether there is a block there. */
  bool record_stream(void *address, cudaStream_t stream);
  /* Whether there is a block there, of which the history says `metadata` from now on. */
  bool annotate(void *address, const std::string &metadata);
  void release_cached(const MempoolId_t &id);

  /* Whether memory here is ranges of addresses with pages behind them, which grow: PyTorch's "expandable segments". */
  bool is_expandable() { return core_.allocator_has_pages(allocator()) != 0; }
  /* The pages behind the block at `address`, for other processes; none for a block without. Whether there is a block. */
  bool share(void *address, std::vector<cuplug_shared_page> &pages);

  double fraction() const { return fraction_; }
  void set_fraction(double fraction);
  size_t largest_free();
  bool find_segment(void *address, void **start, size_t *nbytes, bool *is_expandable);
  std::vector<StreamSegmentSize> expandable_sizes();
  DeviceStats statistics();
  void reset_peaks();
  void reset_accumulated();
  std::vector<SegmentInfo> segments(const MempoolId_t &id);
  void observe_shortages(OutOfMemoryObserver observer);
  /* Tell the history of events from now on, if anybody wants to know. */
  void settle_listening();

  /* `giver`: what the pool brings along; null for the device's own memory. */
  void create_pool(const MempoolId_t &id, std::shared_ptr<CUDAAllocator> giver);
  void release_pool(const MempoolId_t &id);
  /* Give each tensor a segment of what the pool has brought along for itself. */
  void keep_segments_whole(const MempoolId_t &id);
  bool holds_exactly(const MempoolId_t &id, const std::unordered_set<void *> &expected);
  std::shared_ptr<AllocatorState> checkpoint(const MempoolId_t &id);
  CheckpointDelta restore(const std::shared_ptr<AllocatorState> &state, void (*deleter)(void *));

  Pools pools;
  History history;

 private:
  cuplug_allocator *allocator() {
    cuplug_allocator *found = allocator_.load(std::memory_order_acquire);
    return found != nullptr ? found : find_allocator();
  }
  cuplug_allocator *if_used() const { return allocator_.load(std::memory_order_acquire); }
  cuplug_allocator *find_allocator();
  Place find_place(void *address) {
    cuplug_allocator *used = if_used();
    cuplug_block *found = used == nullptr ? nullptr : core_.find_block(used, reinterpret_cast<uint64_t>(address));
    if (found == nullptr && has_others()) return find_own_place(address);
    return {used, found};
  }
  bool has_others() const { return plain_.load(std::memory_order_acquire) || own_count_.load(std::memory_order_acquire); }
  Place find_own_place(void *address);
  /* Where the pool that `key` names gets its memory. */
  cuplug_allocator *allocator_for(uint64_t key) {
    if (number_of(key) != 0 && own_count_.load(std::memory_order_acquire) != 0)
      if (cuplug_allocator *own = own_allocator(key)) return own;
    cuplug_allocator *usual = allocator();
    return has_pages_.load(std::memory_order_relaxed) && !segments_expand() ? plain_allocator() : usual;
  }
  /* For what is allocated while PyTorch's setting expandable_segments is off: memory of cudaMalloc, as natively. */
  cuplug_allocator *plain_allocator();
  cuplug_allocator *own_allocator(uint64_t key); /* or null */
  std::shared_ptr<OwnMemory> own_memory(const cuplug_allocator *allocator); /* or null */
  /* All that there are, the device's own first, and as long as they are held; and what those that have gone had counted. */
  std::vector<std::shared_ptr<cuplug_allocator>> allocators(cuplug_statistics *past = nullptr);
  cuplug_statistics added_statistics();
  void drop_unused_own();
  void add_segments(cuplug_allocator *used, const MempoolId_t &id, std::vector<SegmentInfo> &infos);
  void give_back(const Place &place);
  cuplug_block *allocate_after(int answer, size_t nbytes, cudaStream_t stream, uint64_t key);
  bool free_in_other(cuplug_allocator *from);
  bool is_capturing_refused(int answer) const;
  [[noreturn]] void fail(int answer, size_t nbytes);
  cuplug_shortage shortage_now(size_t nbytes);
  void note_shortage(const cuplug_shortage &shortage);
  [[noreturn]] void raise_shortage(const cuplug_shortage &shortage);
  void report(void *address, int64_t change);
  std::vector<Place> live_blocks(uint64_t pool);

  const Core &core_;
  const FindHandle find_;
  const DeviceIndex index_;
  std::atomic<cuplug_allocator *> allocator_{nullptr}, plain_{nullptr}; /* made once, and there for ever */
  std::atomic<bool> has_pages_{false};                                  /* the first of them */
  std::atomic<double> fraction_{configured_fraction()};
  std::atomic<int64_t> other_shortages_{0}; /* that the core does not know of, since the latest reset */
  /* Of the following. Nobody enters an allocator of the core while holding it: whoever is inside one may be in a function
   * of the program's that waits for the interpreter's lock, and the holder of that lock may wait for this mutex. */
  std::mutex mutex_;
  std::vector<OutOfMemoryObserver> observers_;
  std::vector<std::pair<uint64_t, std::shared_ptr<OwnMemory>>> own_; /* by the pool's number; 0 once it has ended */
  cuplug_statistics past_{}; /* of those in `own_` that have gone: what has been allocated and freed */
  uint64_t resets_ = 0; /* how often statistics were reset, each counted once all allocators were */
  std::atomic<size_t> own_count_{0};
  std::mutex kept_mutex_; /* held while what a block keeps is read or let go */
};

}  // namespace cuplug_torch

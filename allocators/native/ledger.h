/* Counts what an allocator does, at once and exactly (ledger.py, statistics.py). */
#pragma once

#include <algorithm>
#include <cstdint>

#include "block.h"

namespace cuplug {

/* One figure. What was freed follows from the rest: `allocated - (current - start)`. */
struct Figure {
  int64_t current = 0;
  int64_t peak = 0;
  int64_t allocated = 0;
  int64_t start = 0; /* the value from which the two sums are counted */

  void increase(int64_t amount) {
    allocated += amount;
    current += amount;
    if (current > peak) peak = current;
  }
  void decrease(int64_t amount) { current -= amount; }
  void change(int64_t amount) {
    if (amount > 0)
      increase(amount);
    else
      current += amount;
  }
  void reset_peak() { peak = current; }
  void reset_accumulated() {
    allocated = 0;
    start = current;
  }
  cuplug_counter copy() const { return {current, peak, allocated, allocated - (current - start)}; }
};

/* The figures of one group of blocks: all, the small, or the large ones.
 *
 * Active is what is in the program's hands and what waits for streams. Only the latter is counted here, since most
 * programs have none: the peak of what is active is that of what was in the program's hands, or one that was reached
 * while something waited. */
struct Figures {
  Figure allocation, allocated_bytes, requested_bytes, inactive_split, inactive_split_bytes;
  int64_t waiting = 0, waiting_bytes = 0;
  int64_t active_peak = 0, active_bytes_peak = 0; /* since the last reset, while something waited */
  int64_t active_start = 0, active_bytes_start = 0;
  Figure segment, reserved_bytes, host_bytes;

  void allocated(int64_t nbytes, int64_t requested) {
    allocation.increase(1);
    allocated_bytes.increase(nbytes);
    requested_bytes.increase(requested);
    if (waiting != 0) keep_active_peaks();
  }
  void freed(int64_t nbytes, int64_t requested) {
    allocation.decrease(1);
    allocated_bytes.decrease(nbytes);
    requested_bytes.decrease(requested);
  }
  void change_waiting(int64_t blocks, int64_t nbytes) {
    waiting += blocks;
    waiting_bytes += nbytes;
  }
  void keep_active_peaks();
  void reset_peaks();
  void reset_accumulated();
  cuplug_counters copy() const;
};

/* The books of one allocator, used under its mutex. Everything is counted twice: for the whole, and for its small or its
 * large blocks. Sizes are bytes. */
class Ledger {
 public:
  uint64_t reserved() const { return static_cast<uint64_t>(all_.reserved_bytes.current); }
  /* Of that, what stands in the host's memory. */
  uint64_t host() const { return static_cast<uint64_t>(all_.host_bytes.current); }
  uint64_t in_use() const { return static_cast<uint64_t>(all_.allocated_bytes.current); }
  const Figures &all() const { return all_; }
  /* What is free in segments with blocks in use. */
  int64_t wasted() const { return all_.inactive_split_bytes.current; }
  /* The most that has ever been in the program's hands, whichever peaks were reset. */
  int64_t most_allocated() const { return std::max(most_allocated_, all_.allocated_bytes.peak); }
  uint64_t active_bytes() const { return in_use() + static_cast<uint64_t>(all_.waiting_bytes); }

  /* A block goes into the program's hands. */
  void allocated(uint64_t nbytes, uint64_t requested) {
    all_.allocated(int64_t(nbytes), int64_t(requested));
    pool(nbytes <= SMALL_BLOCK).allocated(int64_t(nbytes), int64_t(requested));
  }
  /* A block leaves the program's hands. */
  void freed(uint64_t nbytes, uint64_t requested) {
    all_.freed(int64_t(nbytes), int64_t(requested));
    pool(nbytes <= SMALL_BLOCK).freed(int64_t(nbytes), int64_t(requested));
  }
  /* A block that has left the program's hands begins to wait (+1), or waits no longer (-1). */
  void change_waiting(int blocks, uint64_t nbytes) {
    all_.change_waiting(blocks, blocks * int64_t(nbytes));
    pool(nbytes <= SMALL_BLOCK).change_waiting(blocks, blocks * int64_t(nbytes));
  }
  void took_segment(uint64_t nbytes, bool small) {
    ++num_device_alloc;
    mapped(1, int64_t(nbytes), small);
  }
  void gave_segment(uint64_t nbytes, bool small) {
    ++num_device_free;
    mapped(-1, -int64_t(nbytes), small);
  }
  /* A change in what is held: in segments (memory without a gap), and in bytes. */
  void mapped(int64_t segments, int64_t nbytes, bool small) {
    all_.segment.change(segments);
    all_.reserved_bytes.change(nbytes);
    pool(small).segment.change(segments);
    pool(small).reserved_bytes.change(nbytes);
  }
  /* A change in what of it stands in the host's memory. */
  void on_host(int64_t nbytes, bool small) {
    all_.host_bytes.change(nbytes);
    pool(small).host_bytes.change(nbytes);
  }
  /* A change in the free blocks that share a segment with used ones. */
  void split(int64_t blocks, int64_t nbytes, bool small) {
    all_.inactive_split.change(blocks);
    all_.inactive_split_bytes.change(nbytes);
    pool(small).inactive_split.change(blocks);
    pool(small).inactive_split_bytes.change(nbytes);
  }
  void reset_peaks();
  void reset_accumulated();
  void copy(cuplug_statistics *statistics) const;

  int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0, num_device_alloc = 0, num_device_free = 0;

 private:
  Figures &pool(bool small) { return small ? small_ : large_; }

  int64_t most_allocated_ = 0;  /* before peaks were reset */
  Figures small_, all_, large_; /* in this order, so that either pair lies together */
};

}  // namespace cuplug

/* `direct` and `bump` as far as a replay goes (direct.py, bump.py): over an upstream without a device, whose fences have
 * all passed, and without the arena's resets. */
#pragma once

#include <memory>
#include <vector>

#include "allocator.h"

namespace cuplug {

/* One piece from upstream for each block. */
class ReplayedDirect final : public Allocator {
 public:
  ReplayedDirect(const cuplug_upstream &table, uint64_t memory_limit)
      : Allocator(table, memory_limit), granularity_(table.granularity) {}

 protected:
  Block *take(uint64_t requested, uint64_t nbytes, uint64_t stream) override;
  void put(Block *block) override;
  uint64_t release_unused() override { return 0; }
  void map_segments(std::vector<cuplug_segment> &segments, std::vector<cuplug_piece> &pieces) override;
  uint64_t rounded(uint64_t nbytes) const override;
  void forget(uint64_t) override {}

 private:
  uint64_t granularity_;
};

/* An arena: blocks follow one another in chunks, and none comes back. */
class ReplayedBump final : public Allocator {
 public:
  ReplayedBump(const cuplug_upstream &table, uint64_t memory_limit, uint64_t chunk_size)
      : Allocator(table, memory_limit), chunk_size_(aligned(chunk_size)) {}

 protected:
  Block *take(uint64_t requested, uint64_t nbytes, uint64_t stream) override;
  void put(Block *block) override { block->kind = FREE; } /* a place that nobody gets again */
  uint64_t release_unused() override { return 0; }
  void map_segments(std::vector<cuplug_segment> &segments, std::vector<cuplug_piece> &pieces) override;
  void release_all() override;
  void forget(uint64_t) override {}

 private:
  struct Chunk {
    uint64_t address, nbytes, stream;
    Block *first; /* its parts: blocks, and behind them the rest, which is free or SPARE where there is none */
    Block *rest;
  };

  uint64_t chunk_size_;
  std::vector<Chunk> chunks_; /* the pointer is in the last */
};

}  // namespace cuplug

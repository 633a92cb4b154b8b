#ifndef CUPLUG_EXPANDABLE_H
#define CUPLUG_EXPANDABLE_H
#include "allocator.h"
namespace cuplug {
struct ExpandableOptions { uint64_t memory_limit = NO_LIMIT; uint64_t slack = 48 * MIB; };
class ExpandableAllocator final : public Allocator {
 public:
  ExpandableAllocator(const cuplug_upstream &table, const ExpandableOptions &options) : Allocator(table, options.memory_limit) {}
 protected:
  Block *take(uint64_t, uint64_t, uint64_t) override { throw OutOfMemory(); }
  void put(Block *) override {}
  uint64_t release_unused() override { return 0; }
  void map_segments(std::vector<cuplug_segment> &, std::vector<cuplug_piece> &) override {}
  void forget(uint64_t) override {}
};
}
#endif

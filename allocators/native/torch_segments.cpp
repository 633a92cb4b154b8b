#include "torch_segments.h"

#include <algorithm>

#include "policy.h"

namespace cuplug {

namespace {

bool is_of(const Block *span, Kind kind) { return span != nullptr && span->kind == kind; }

/* The size of a free part, and of the hole behind it. */
uint64_t reach(const Block *span) { return span->nbytes + (is_of(span->after, HOLE) ? span->after->nbytes : 0); }

}  // namespace

uint64_t torch_page(const Space &space) {
  return round_up(space.small ? policy::TORCH_SMALL_SEGMENT : policy::TORCH_LARGE_SEGMENT, space.granularity());
}

uint64_t torch_range(uint64_t total, uint64_t nbytes, uint64_t page) {
  return round_up(std::max(std::min(total + total / 8, policy::TORCH_RANGE), nbytes), page);
}

Block *find_as_torch(const Space &space, uint64_t nbytes) {
  Block *chosen = nullptr;
  uint64_t least = 0;
  space.each_free_from(nbytes, [&](Block *span) {
    const uint64_t reached = reach(span);
    if (chosen != nullptr && reached >= least) return false;
    chosen = span;
    least = reached;
    return true;
  });
  return chosen;
}

bool lowest_opening(const Space &space, uint64_t nbytes, uint64_t page, Opening *found) {
  for (const Block *hole : space.holes_in_order()) {
    const Block *span = is_of(hole->before, FREE) ? hole->before : hole;
    const uint64_t address = span->address;
    uint64_t there = 0;
    found->holes.clear();
    found->missing = 0;
    for (; there < nbytes && Space::in_gap(span); span = span->after) {
      if (span->kind == HOLE) {
        const uint64_t mapped = std::min(round_up(nbytes - there, page), span->nbytes);
        found->holes.push_back({span->address, span->address + mapped});
        found->missing += mapped;
      }
      there += span->nbytes;
    }
    if (there < nbytes) continue;
    found->address = address;
    found->nbytes = nbytes;
    found->room = there;
    return true;
  }
  return false;
}

}  // namespace cuplug

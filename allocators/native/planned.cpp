#include "planned.h"

#include <algorithm>

namespace cuplug {

PlannedAllocator::PlannedAllocator(const cuplug_upstream &table, PlannedOptions options)
    : ExpandableAllocator(table, options.expandable) {
  for (Cycle &cycle : options.cycles) {
    followers_.push_back(std::make_unique<Follower>(std::move(cycle)));
    by_stream_number_.insert(followers_.back()->cycle.stream, followers_.back().get());
  }
}

/* --- allocation and free */

Block *PlannedAllocator::take(uint64_t requested, uint64_t nbytes, uint64_t stream) {
  Follower *follower = by_stream_number_.find(stream);
  const int64_t offset = follower == nullptr || memory_tag != 0 ? UNPLANNED : follower->propose(nbytes);
  Block *span = nullptr;
  if (offset != UNPLANNED) {
    ++allocations_;
    allocated_bytes_ += nbytes;
    span = span_at(follower, uint64_t(offset), nbytes);
  }
  const bool is_planned = span != nullptr;
  if (!is_planned) span = ExpandableAllocator::take(requested, nbytes, stream);
  if (follower != nullptr) follower->has_served(nbytes);
  ++served_.requests;
  served_.requested_bytes += requested;
  if (is_planned) {
    ++served_.planned_requests;
    served_.planned_bytes += requested;
  }
  return span;
}

void PlannedAllocator::put(Block *block) {
  Space *space = static_cast<Space *>(block->home);
  space->prepare();
  Follower *follower = by_stream_number_.find(block->stream);
  if (follower != nullptr && follower->space == space) follower->gone(block);
  ExpandableAllocator::put(block);
}

/* --- the ranges of the plan */

/* Take `nbytes` at `offset` in the follower's range as a block; null if they are not to be had. */
Block *PlannedAllocator::span_at(Follower *follower, uint64_t offset, uint64_t nbytes) {
  follower->prepare();
  pages_.begin();
  try {
    if (follower->space == nullptr || follower->space->ranges.empty()) map_range(follower);
    Space *space = follower->space;
    const uint64_t address = space->ranges.front()->address + offset;
    Block *gap = follower->gap_around(address, nbytes);
    if (gap == nullptr) return nullptr;
    Block *span = gap;
    while (span->end() <= address) span = span->after;
    if (span->kind == FREE && span->end() >= address + nbytes) {
      space->prepare();
    } else {
      Opening opening;
      opening.address = address;
      opening.nbytes = nbytes;
      opening.missing = space->missing(gap, address, address + nbytes, &opening.holes);
      span = fill(space, opening, creatable(nbytes));
    }
    span = space->take_at(span, address, nbytes);
    follower->lies(span);
    return span;
  } catch (const OutOfMemory &) { /* as without a plan: what is short or out of order shows there */
  } catch (const Failed &) {
  }
  return nullptr;
}

/* Reserve a follower's range and map it as a whole, if there is memory for that; else piece by piece, later. */
void PlannedAllocator::map_range(Follower *follower) {
  const uint64_t nbytes = follower->range_bytes(granularity_);
  Stream *stream = stream_made(follower->cycle.stream);
  if (follower->space == nullptr) {
    spaces_.push_back(std::make_unique<Space>(follower->cycle.stream, false, stream->stamps, granularity_, ledger_, parts_,
                                              runs_));
    stream->planned = follower->space = spaces_.back().get();
  }
  Space *space = follower->space;
  const uint64_t address = upstream_.reserve_range(nbytes);
  space->add(std::make_unique<Range>(address, nbytes, granularity_));
  Opening whole;
  whole.address = address;
  whole.nbytes = whole.missing = nbytes;
  whole.holes.push_back({address, address + nbytes});
  fill(space, whole, creatable(nbytes));
}

std::vector<Space *> PlannedAllocator::movable_spaces() const {
  std::vector<Space *> found = ExpandableAllocator::movable_spaces();
  if (gives_up_ranges_) return found;
  auto is_kept_whole = [this](const Space *space) {
    return std::any_of(followers_.begin(), followers_.end(),
                       [&](const auto &follower) { return follower->space == space && follower->follows(); });
  };
  found.erase(std::remove_if(found.begin(), found.end(), is_kept_whole), found.end());
  return found;
}

uint64_t PlannedAllocator::release_unused() {
  struct Meanwhile {
    bool &is_set;
    ~Meanwhile() { is_set = false; }
  } meanwhile{gives_up_ranges_ = true};
  return ExpandableAllocator::release_unused();
}

void PlannedAllocator::forget(uint64_t stream) {
  ExpandableAllocator::forget(stream);
  Follower *follower = by_stream_number_.find(stream);
  if (follower != nullptr) follower->lose(); /* another stream may get its number: for that it starts anew */
}

}  // namespace cuplug

#include "planned.h"

#include <algorithm>

namespace cuplug {


PlannedAllocator::PlannedAllocator(const cuplug_upstream &table, PlannedOptions options)
    : ExpandableAllocator(table, options.expandable), repetitions_(options.repetitions), at_once_(options.at_once) {
  for (Cycle &cycle : options.cycles) {
    followers_.push_back(std::make_unique<Follower>(std::move(cycle)));
    by_stream_number_.insert(followers_.back()->cycle.stream, followers_.back().get());
  }
}

/* --- allocation and free */

Block *PlannedAllocator::take(uint64_t requested, uint64_t nbytes, uint64_t stream) {
  Follower *before = by_stream_number_.find(stream);
  if (before != nullptr && before->is_refuted()) {
    leave(stream);
    if (Learner *its = learner_by_stream_.find(stream)) its->forget_cycle();
  }
  Learner *learner = learner_of(stream);
  if (learner != nullptr) {
    learner->prepare();
    if (std::unique_ptr<Follower> learned = learner->due()) take_up(stream, std::move(learned));
  }
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
  has_served(span, requested, follower, learner);
  if (is_planned) {
    ++served_.planned_requests;
    served_.planned_bytes += requested;
  }
  return span;
}

Block *PlannedAllocator::take_beyond(uint64_t requested, uint64_t nbytes, uint64_t stream) {
  Learner *learner = learner_of(stream);
  if (learner != nullptr) learner->prepare();
  Block *span = ExpandableAllocator::take_beyond(requested, nbytes, stream);
  has_served(span, requested, by_stream_number_.find(stream), learner);
  return span;
}

/* Go on from a request that got `span`, planned or not. */
void PlannedAllocator::has_served(Block *span, uint64_t requested, Follower *follower, Learner *learner) {
  if (follower != nullptr) follower->has_served(span->nbytes);
  span->recorded = 0;
  if (learner != nullptr) learner->asked(span);
  ++served_.requests;
  served_.requested_bytes += requested;
}

void PlannedAllocator::put(Block *block) {
  Space *space = space_at(block);
  space->prepare();
  Follower *follower = by_stream_number_.find(block->stream);
  if (follower != nullptr && follower->space == space) follower->gone(block);
  if (block->recorded != 0) {
    Learner *learner = learner_by_stream_.find(block->stream);
    if (learner != nullptr) learner->freed(block);
  }
  ExpandableAllocator::put(block);
}

/* --- what it learns */

Learner *PlannedAllocator::learner_of(uint64_t stream) {
  if (repetitions_ == 0 || names_pool(stream) || memory_tag != 0) return nullptr;
  Learner *found = learner_by_stream_.find(stream);
  if (found != nullptr) return found;
  learner_by_stream_.prepare();
  generation_ += 1 << 16; /* each may start anew that often */
  const Follower *follower = by_stream_number_.find(stream);
  std::vector<uint64_t> followed;
  if (follower != nullptr)
    followed.assign(follower->cycle.sizes.begin() + ptrdiff_t(follower->cycle.begin), follower->cycle.sizes.end());
  learners_.push_back(std::make_unique<Learner>(stream, repetitions_, at_once_, generation_, std::move(followed)));
  learner_by_stream_.insert(stream, learners_.back().get());
  return learners_.back().get();
}

/* Follow another cycle from here on. */
void PlannedAllocator::take_up(uint64_t stream, std::unique_ptr<Follower> learned) {
  followers_.reserve(followers_.size() + 1);
  by_stream_number_.prepare();
  leave(stream);
  by_stream_number_.insert(stream, learned.get());
  followers_.push_back(std::move(learned));
}

/* Follow no cycle any more. What lies in its range stays there until it is freed. */
void PlannedAllocator::leave(uint64_t stream) {
  ownerless_.reserve(ownerless_.size() + 1);
  Follower *before = by_stream_number_.find(stream);
  if (before != nullptr) {
    by_stream_number_.erase(stream);
    drop_if(followers_, [&](const auto &one) { return one.get() == before; });
  }
  Stream *found = stream_of(stream);
  if (found != nullptr && found->planned != nullptr) {
    give_up(found->planned);
    found->planned = nullptr;
  }
}

/* Wait, outside the mutex, for the searches that are under way. */
int PlannedAllocator::finish_planning() {
  std::vector<std::shared_ptr<Learner::Search>> searches;
  const int answer = operate_on([&] {
    for (const auto &learner : learners_)
      if (learner->search() != nullptr) searches.push_back(learner->search());
  });
  for (const auto &search : searches) Learner::wait(*search);
  return answer;
}

/* --- the ranges of the plan */

/* Take `nbytes` at `offset` in the follower's range as a block; null if they are not to be had. */
Block *PlannedAllocator::span_at(Follower *follower, uint64_t offset, uint64_t nbytes) {
  follower->prepare();
  pages_.begin();
  const uint64_t peak = recurrence_.peak();
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
      make_plan(space, opening, creatable(nbytes));
      span = fill(space);
    }
    span = space->take_at(span, address, nbytes);
    follower->lies(span);
    return span;
  } catch (const Stopped &) { /* as without a plan: what is short or out of order shows there */
    recurrence_.set_peak(peak);
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
  make_plan(space, whole, creatable(nbytes));
  fill(space);
  /* What the stream's blocks lay in until now is of use no more: the plan has room for nearly all of them. */
  std::vector<Space *> left = movable_spaces(false);
  drop_if(left, [&](const Space *other) { return other == space || other->stream != space->stream; });
  give_back_free(left);
}

std::vector<Space *> PlannedAllocator::movable_spaces(bool host) const {
  std::vector<Space *> found = ExpandableAllocator::movable_spaces(host);
  if (gives_up_ranges_) return found;
  for (const auto &follower : followers_)
    if (follower->follows()) drop_if(found, [&](const Space *space) { return space == follower->space; });
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
  Learner *learner = learner_by_stream_.find(stream);
  if (learner != nullptr) { /* another stream may get its number: for that all starts anew */
    learner_by_stream_.erase(stream);
    drop_if(learners_, [&](const auto &one) { return one.get() == learner; });
  }
  Follower *follower = by_stream_number_.find(stream);
  if (follower != nullptr) follower->lose();
}

}  // namespace cuplug

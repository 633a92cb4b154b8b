#include "follower.h"

#include "policy.h"

namespace cuplug {

namespace {

using policy::WINDOW;

uint64_t mixed(uint64_t sum, uint64_t nbytes) {
  sum = (sum ^ nbytes) * 0x9E3779B97F4A7C15u;
  return sum ^ sum >> 29;
}

}  // namespace

Follower::Follower(Cycle taken, size_t trials)
    : cycle(std::move(taken)), to_prove_(trials * cycle.sizes.size()), last_(WINDOW) {
  for (size_t place = 0; place < length(); ++place) {
    uint64_t sum = 0;
    for (size_t at = place; at < place + WINDOW; ++at) sum = mixed(sum, known_size(at));
    windows_.emplace(sum, place); /* of several, the first */
  }
}

int64_t Follower::propose(uint64_t nbytes) const {
  if (next_ == NOWHERE || lacking_ != 0 || cycle.sizes[next_] != nbytes) return UNPLANNED;
  return cycle.offsets[next_];
}

void Follower::has_served(uint64_t nbytes) {
  last_[seen_ % WINDOW] = nbytes;
  seen_ = seen_ + 1 < 2 * WINDOW ? seen_ + 1 : WINDOW;
  if (next_ != NOWHERE && cycle.sizes[next_] == nbytes) {
    next_ = next_ + 1 < cycle.sizes.size() ? next_ + 1 : cycle.begin;
    if (lacking_ != 0) --lacking_;
    if (to_prove_ != 0) --to_prove_;
    strange_ = 0;
    return;
  }
  ++strange_;
  const size_t found = recognised();
  if ((next_ != NOWHERE && next_ < cycle.begin && strange_ >= WINDOW) || lacking_ != 0)
    lacking_ = length(); /* it is another program, as far as is known */
  if (found != NOWHERE) {
    next_ = found;
    strange_ = 0;
  } else if (strange_ >= WINDOW) {
    next_ = NOWHERE;
  } else {
    return;
  }
  is_refuted_ = to_prove_ != 0;
}

/* The place in the plan behind the latest requests; NOWHERE if they are none of the cycle's. */
size_t Follower::recognised() const {
  if (seen_ < WINDOW) return NOWHERE;
  uint64_t sum = 0;
  for (size_t at = 0; at < WINDOW; ++at) sum = mixed(sum, last_[(seen_ + at) % WINDOW]);
  const auto found = windows_.find(sum);
  if (found == windows_.end()) return NOWHERE;
  for (size_t at = 0; at < WINDOW; ++at)
    if (known_size(found->second + at) != last_[(seen_ + at) % WINDOW]) return NOWHERE;
  return cycle.begin + (found->second + WINDOW) % length();
}

void Follower::lose() {
  space = nullptr;
  next_ = NOWHERE;
  lacking_ = length();
  strange_ = seen_ = to_prove_ = 0;
  is_refuted_ = false;
  while (!blocks_.empty()) spare_.push_back(blocks_.extract(blocks_.begin()));
}

/* --- what lies in the range */

Block *Follower::gap_around(uint64_t address, uint64_t nbytes) const {
  const auto after = blocks_.lower_bound(address);
  if (after != blocks_.end() && after->first < address + nbytes) return nullptr;
  if (after == blocks_.begin()) return space->ranges.front()->first;
  const Block *before = std::prev(after)->second;
  return before->end() > address ? nullptr : before->after;
}

void Follower::prepare() {
  if (!spare_.empty()) return;
  spare_.reserve(blocks_.size() + 1); /* room for all that there are: giving one back cannot fail */
  Blocks made;
  made.emplace(0, nullptr);
  spare_.push_back(made.extract(made.begin()));
}

void Follower::lies(Block *block) {
  Blocks::node_type node = std::move(spare_.back());
  spare_.pop_back();
  node.key() = block->address;
  node.mapped() = block;
  blocks_.insert(std::move(node));
}

void Follower::gone(const Block *block) {
  const auto found = blocks_.find(block->address);
  if (found == blocks_.end()) return;
  spare_.push_back(blocks_.extract(found));
}

}  // namespace cuplug

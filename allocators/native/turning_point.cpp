#include "turning_point.h"

#include <algorithm>

namespace cuplug {

void TurningPoint::seek() {
  if (cycle_ != 0) return;
  const std::vector<uint64_t> marks = recurrence_.latest_cycle();
  if (marks.empty()) return;
  const auto first = alive_.end() - ptrdiff_t(marks.size());
  const size_t place = size_t(std::min_element(first, alive_.end()) - first);
  cycle_ = marks.size();
  mark_ = marks[place];
  times_ = 0;
  next_ = recurrence_.count() + place + 1;
}

uint64_t TurningPoint::reached(uint64_t alive) {
  if (alive_.size() == policy::MARKS_KEPT) alive_.erase(alive_.begin(), alive_.begin() + policy::MARKS_KEPT / 2);
  alive_.push_back(alive);
  if (cycle_ == 0 || recurrence_.count() < next_) return 0;
  if (recurrence_.latest_mark() != mark_) {
    cycle_ = 0;
    return 0;
  }
  next_ += cycle_;
  return ++times_;
}

}  // namespace cuplug

#include "recurrence.h"

#include <algorithm>

#include "planning.h"

namespace cuplug {

void Recurrence::mark() {
  if (marked_ == marks_.size()) {
    std::copy(marks_.begin() + ptrdiff_t(marks_.size() / 2), marks_.end(), marks_.begin());
    marked_ = marks_.size() / 2;
    forgotten_ += marks_.size() / 2;
  }
  marks_[marked_++] = sum_;
}

bool Recurrence::repeats() {
  if (looked_at_ != count()) {
    find_cycle_and_larger({marks_.begin(), marks_.begin() + ptrdiff_t(marked_)}, &cycle_, &larger_);
    looked_at_ = count();
  }
  return cycle_ != 0 && count() - cycle_ >= started_;
}

}  // namespace cuplug

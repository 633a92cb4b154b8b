#include "recurrence.h"

#include <algorithm>

#include "planning.h"

namespace cuplug {

void Recurrence::mark() {
  if (marked_ == MOST_MARKS) {
    std::copy(marks_.begin() + MOST_MARKS / 2, marks_.end(), marks_.begin());
    marked_ = MOST_MARKS / 2;
    forgotten_ += MOST_MARKS / 2;
  }
  marks_[marked_++] = sum_;
}

void Recurrence::left(uint64_t address, uint64_t nbytes) {
  if (left_count_ == MOST_LEFT) {
    std::copy(left_.begin() + MOST_LEFT / 2, left_.end(), left_.begin());
    left_count_ = MOST_LEFT / 2;
  }
  left_[left_count_++] = {count(), address, nbytes};
}

bool Recurrence::places_left(uint64_t granularity, std::vector<uint64_t> *places) {
  const uint64_t since = count() - latest_cycle();
  if (!repeats() || (left_count_ >= MOST_LEFT / 2 && left_[0].count >= since)) return false;
  places->clear();
  for (size_t at = 0; at < left_count_; ++at)
    for (uint64_t done = 0; left_[at].count >= since && done < left_[at].nbytes; done += granularity)
      places->push_back(left_[at].address + done);
  std::sort(places->begin(), places->end());
  places->erase(std::unique(places->begin(), places->end()), places->end());
  return true;
}

/* How many marks the cycle has that has come twice of late; 0 for none. */
uint64_t Recurrence::latest_cycle() {
  if (looked_at_ != count()) {
    size_t first = 0, length = 0;
    cycle_ = find_cycle({marks_.begin(), marks_.begin() + ptrdiff_t(marked_)}, &first, &length) ? length : 0;
    looked_at_ = count();
  }
  return cycle_;
}

}  // namespace cuplug

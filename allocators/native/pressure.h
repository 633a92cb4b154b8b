/* Tells an allocator how much may lie waste of the memory that there is (pressure.py). */
#pragma once

#include "ledger.h"
#include "policy.h"
#include "recurrence.h"

namespace cuplug {

class Pressure {
 public:
  /* Unless it `applies`, memory is never tight. */
  explicit Pressure(bool applies) : applies_(applies) {}

  /* Whether less is left than is held. */
  bool is_near() const { return near_; }
  /* The allocator's limit at the latest note. */
  uint64_t limit() const { return limit_; }

  /* Find anew how much waste is allowed, where `left` bytes can still be taken. */
  void note(int64_t left, uint64_t limit, const Ledger &ledger, Recurrence &recurrence) {
    limit_ = limit;
    const int64_t peak = ledger.most_allocated(), reserved = int64_t(ledger.reserved());
    recurrence.note_peak(uint64_t(peak));
    near_ = applies_ && left < reserved;
    if (!near_) return;
    allowed_ = recurrence.goes_on() ? left + reserved - peak - peak / int64_t(policy::BEYOND_PEAK) : -1;
  }

  /* Whether memory is tight, or would be, did `more` bytes lie waste than do now. */
  bool is_tight(const Ledger &ledger, uint64_t more = 0) const {
    return near_ && ledger.wasted() + int64_t(more) > allowed_;
  }

 private:
  const bool applies_;
  bool near_ = false;
  uint64_t limit_ = NO_LIMIT;
  int64_t allowed_ = 0; /* may be below 0: then memory is tight in any case */
};

}  // namespace cuplug

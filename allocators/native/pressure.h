/* Tells an allocator how much may lie waste of the memory that there is (pressure.py). */
#ifndef CUPLUG_PRESSURE_H
#define CUPLUG_PRESSURE_H

#include <algorithm>

#include "ledger.h"
#include "policy.h"
#include "recurrence.h"

namespace cuplug {

class Pressure {
 public:
  /* Unless it `applies`, memory is never tight. */
  explicit Pressure(bool applies) : applies_(applies) {}

  int64_t allocations = 0; /* how many large blocks have been asked for */

  /* Whether less is left than is held. */
  bool is_near() const { return near_; }
  /* The allocator's limit at the latest note. */
  uint64_t limit() const { return limit_; }

  /* Find anew how much waste is allowed, where `left` bytes can still be taken. */
  void note(int64_t left, uint64_t limit, const Ledger &ledger, Recurrence &recurrence) {
    constexpr int64_t SURE = 1024; /* a share is counted in parts of this */
    limit_ = limit;
    const int64_t peak = ledger.most_allocated(), reserved = int64_t(ledger.reserved());
    recurrence.note_peak(uint64_t(peak));
    if (peak > peak_) {
      peak_ = peak;
      risen_at_ = allocations;
    }
    near_ = applies_ && left < reserved;
    if (!near_) return;
    int64_t sure = (allocations - risen_at_) * SURE / (int64_t(policy::CALM_TIMES) * std::max(risen_at_, int64_t(1)));
    if (sure >= SURE || recurrence.repetitions() != 0) sure = SURE;
    allowed_ = std::max(left + reserved - peak, int64_t(0)) / SURE * sure - peak / int64_t(policy::BEYOND_PEAK);
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
  int64_t peak_ = 0, risen_at_ = 0;
};

}  // namespace cuplug
#endif

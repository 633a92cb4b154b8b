/* The point of a cycle at which the least is alive, where a program that repeats itself comes by in each
 * (turning_point.py). */
#ifndef CUPLUG_TURNING_POINT_H
#define CUPLUG_TURNING_POINT_H

#include <cstdint>
#include <vector>

#include "recurrence.h"

namespace cuplug {

/* Looked for when it is asked for, followed from mark to mark, and lost where the program goes another way. */
class TurningPoint {
 public:
  explicit TurningPoint(Recurrence &recurrence) : recurrence_(recurrence) {}

  /* Look for one, if none is known. */
  void seek();
  /* How many times in a row it has been reached, with the latest mark, at which `alive` bytes are in use, for the last
   * time; 0 if that is not there. */
  uint64_t reached(uint64_t alive);

 private:
  Recurrence &recurrence_;
  std::vector<uint64_t> alive_; /* with each of the latest marks */
  size_t cycle_ = 0;            /* its length in marks, or 0 where no turning point is known */
  uint64_t next_ = 0;           /* the count of marks at which it is to come */
  uint64_t mark_ = 0;           /* the mark that is to come there */
  uint64_t times_ = 0;          /* how often it has come since it was found */
};

}  // namespace cuplug
#endif

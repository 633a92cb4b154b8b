/* Finds what a stream repeats of late, and gives each of its blocks a fixed place (planning.py: learned_cycle). */
#ifndef CUPLUG_PLANNING_H
#define CUPLUG_PLANNING_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plans.h"

namespace cuplug {

/* Rounded bytes, and how many requests there had been on the stream when the block was freed; -1 if it never was. */
struct Asked {
  uint64_t nbytes;
  int64_t freed;
};

/* Whether the requests end with a cycle that has come `repetitions` times, and another than `followed` (null for none):
 * then it goes into `cycle`, and the number of the first request in it into `begins`. */
bool learned_cycle(uint64_t stream, const std::vector<Asked> &requests, size_t repetitions,
                   const std::vector<uint64_t> *followed, Cycle *cycle, size_t *begins);

}  // namespace cuplug
#endif

/* Finds what a stream repeats of late, and gives each of its blocks a fixed place (planning.py: learned_cycle). */
#pragma once

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

/* What a look at the latest requests has shown. */
struct Learned {
  bool is_found = false;
  Cycle cycle;
  size_t begins = 0;     /* the number of the first request in it */
  size_t look_again = 0; /* if none is found: with so many requests, what seems to repeat has come often enough */
};

/* The cycle with which the requests end, if it has come `repetitions` times, and is another than `followed`. */
Learned learned_cycle(uint64_t stream, const std::vector<Asked> &requests, size_t repetitions,
                      const std::vector<uint64_t> &followed);

/* The length of what `values` repeat at their end, twice at least, and of what that seems to be a part of; 0 for what there
 * is not. */
void find_cycle_and_larger(std::vector<uint64_t> values, size_t *length, size_t *larger);

}  // namespace cuplug

/* Plans: where the blocks of a program that repeats itself go, in the order in which it asks for them (planning.py). */
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuplug {

constexpr int64_t UNPLANNED = -1; /* in place of an offset: the block is no part of the plan */

/* The requests on one stream of one device: those of the beginning, then the ones that repeat. Bytes. */
struct Cycle {
  uint64_t device = 0;
  uint64_t stream = 0;
  std::vector<uint64_t> sizes;  /* of the requests, in order. Behind the last one, that at `begin` follows again */
  size_t begin = 0;             /* the first request of the cycle */
  std::vector<int64_t> offsets; /* where each block lies in the range */
  uint64_t height = 0;          /* the bytes of the range */
};

/* The cycles in the file at `path`. Throws Invalid: it cannot be read, or is no plan of this version. */
std::vector<Cycle> read_plan(const char *path);

}  // namespace cuplug

/* The figures of the strategies, as the file has them that both forms read (constants.def). Only what measures them gives
 * one another value, before there is an allocator in its process (`set_figure` of the binding). */
#pragma once

#include "block.h"

namespace cuplug::policy {

constexpr uint64_t GIB = 1024 * MIB, PART = 1, TIMES = 1, COUNT = 1;

#define FIGURE(strategy, name, value, unit, without, meaning) inline uint64_t name = uint64_t(value) * unit;
#include "constants.def"
#undef FIGURE

/* --- PyTorch's (its CUDACachingAllocator.cpp), for the presets */
constexpr uint64_t TORCH_LARGE_SEGMENT = 20 * MIB, TORCH_LARGE_BLOCK = 10 * MIB; /* for blocks below the latter */
constexpr uint64_t TORCH_SMALL_SEGMENT = 2 * MIB, TORCH_ROUND = 2 * MIB;
constexpr uint64_t OVERSIZE_SLACK = 20 * MIB;
constexpr uint64_t TORCH_RANGE = uint64_t(1) << 40; /* of address space at most */

}  // namespace cuplug::policy

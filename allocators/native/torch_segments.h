/* Where PyTorch's expandable segments lay a block, and what they map for it (torch_segments.py). Address arithmetic only. */
#pragma once

#include "space.h"

namespace cuplug {

/* The bytes that are mapped at once. */
uint64_t torch_page(const Space &space);
/* The address space to reserve at once on a device of `total` bytes, for a block of `nbytes`. */
uint64_t torch_range(uint64_t total, uint64_t nbytes, uint64_t page);
/* The free part of at least `nbytes` that is chosen; null if none fits. */
Block *find_as_torch(const Space &space, uint64_t nbytes);
/* The lowest place for a block where something has to be mapped. Whether there is one. */
bool lowest_opening(const Space &space, uint64_t nbytes, uint64_t page, Opening *found);

}  // namespace cuplug

/* Where a block is laid that no free part can hold: where little has to be mapped for it, now and later (placing.py). */
#pragma once

#include "returning.h"
#include "space.h"

namespace cuplug {

/* The best place for a block of `nbytes` among the free parts and holes between two blocks of `space`. Whether there is
 * one. With `returning`, for pages that come from elsewhere, what could come back there counts as less to map, and what
 * would have to be unmapped there as more. */
bool best_opening(const Space &space, uint64_t nbytes, const Returning *returning, Opening *best);

}  // namespace cuplug

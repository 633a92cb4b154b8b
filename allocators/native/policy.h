/* The figures of the strategies, in bytes unless it says otherwise. Each stands in the Python specification too, with
 * the reasons: caching.py, pool.py, expandable.py. tests/native/test_equivalence.py shows that both have the same. */
#ifndef CUPLUG_POLICY_H
#define CUPLUG_POLICY_H

#include "block.h"

namespace cuplug::policy {

/* --- caching */
constexpr uint64_t ROUND = 2 * MIB; /* sizes of segments are multiples of this */
constexpr uint64_t SMALL_SEGMENT = 2 * MIB;
constexpr uint64_t LEAST_SEGMENT = 8 * MIB, MOST_SEGMENT = 64 * MIB; /* for large blocks, between these */
constexpr uint64_t SEGMENTS_OF_ALL = 48;                             /* a part of the peak */
constexpr uint64_t LEAST_SEGMENT_BELOW_PEAK = 64 * MIB;              /* while less is reserved than at the peak */
constexpr int64_t MOST_IDLE = 4; /* a part of the peak: so much more than it may be in use or idle, where more is taken */
constexpr uint64_t GRANTED_EXCESS = 20; /* a part of the peak: what repeats may take to come to rest */
constexpr uint64_t SPARE_TIMES = 8;                                  /* so much larger an idle segment is not broken */
constexpr int64_t FAR_TIMES = 4; /* the end of memory stays near until so much more is left than held */
constexpr int64_t RISE = 32, MARGIN = 20; /* parts of the peak: one so much higher is new; so much is kept free */
constexpr int64_t SURE = 1024, CALM_TIMES = 48, LEAST_PAST = 512; /* how sure a peak is the last one: pressure.py */
constexpr uint64_t LEAST_OWN = 4 * MIB; /* where memory is tight: from so much on a block has a segment of its own, */
constexpr uint64_t OWN_WASTE = 12;      /* if that wastes no more than this part of the block; */
constexpr uint64_t WASTE = 8;           /* and a piece of more serves it that wastes no more than this part */
constexpr uint64_t TORCH_LARGE_SEGMENT = 20 * MIB, TORCH_LARGE_BLOCK = 10 * MIB; /* for blocks below the latter */
constexpr uint64_t OVERSIZE_SLACK = 20 * MIB;

/* --- expandable */
constexpr uint64_t LARGE_RANGE = uint64_t(64) << 30, SMALL_RANGE = uint64_t(4) << 30; /* of address space, at once */
constexpr uint64_t TORCH_RANGE = uint64_t(1) << 40; /* of address space at most, where PyTorch's rules are followed */
constexpr uint64_t RANGE_SHRINKS_BY = 16; /* where the driver refuses so much */
constexpr uint64_t PAGES_OF_BLOCK = 2, PAGES_OF_ALL = 224;
constexpr uint64_t MODEST_PAGE = 4 * MIB, MODEST_PAGES_OF_BLOCK = 24, MODEST_PAGES_OF_ALL = 112;
constexpr uint64_t LEAST_SLACK = 128; /* a part of the peak */
constexpr uint64_t SMALL_PEAK_SLACK = 40, LARGE_PEAK = 512 * MIB, LARGE_PEAK_SLACK = 4;
constexpr uint64_t SLACK_BLOCKS = 32, SLACK = 48 * MIB;
constexpr uint64_t ALIASES = 4; /* addresses at which a page stays mapped after it has moved away */
constexpr uint64_t GRANTED_SLACK = 24, GRANTED_MORE = 64; /* parts of the peak: what repeats may take, to come to rest */
constexpr uint64_t HOST_KEPT = 4; /* free host pages are kept up to this part of what may be taken */
constexpr uint64_t MUCH =
    128 * MIB; /* from so many bytes of new pages on, it is asked first whether the device has them */

/* --- both */
constexpr int MOST_HOOK_CALLS = 64;

}  // namespace cuplug::policy
#endif

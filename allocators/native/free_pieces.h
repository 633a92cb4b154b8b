/* The free pieces of one stream's segments, and the rule by which one is chosen: the smallest that fits
 * (free_pieces.py). Only arithmetic. */
#pragma once

#include <vector>

#include "block.h"
#include "ledger.h"
#include "policy.h"
#include "sorted.h"

namespace cuplug {

class Pool;

/* A piece of memory from upstream. Its parts are a list by address, from `first` on. */
struct Segment {
  uint64_t address = 0;
  uint64_t nbytes = 0;
  Pool *pool = nullptr;
  Block *first = nullptr;
  Segment *before = nullptr; /* among the segments of its pool */
  Segment *after = nullptr;
  Segment *next_spare = nullptr;
};

/* How a pool cuts its segments. Sizes are bytes. `max_split_size` means what PyTorch's `max_split_size_mb` does: pieces
 * from that size on are oversize, are never cut, and serve only requests that are oversize too and at most 20 MiB
 * smaller. */
struct Rules {
  uint64_t remainder;      /* a piece is cut if at least this much is left over; less stays with the block */
  uint64_t max_split_size; /* NO_LIMIT for none */
  bool spare_idle;         /* whether a segment that is free as a whole is only broken when nothing else fits */

  /* Whether a piece of `piece` bytes, large enough, may serve `nbytes`. */
  bool fits(uint64_t piece, uint64_t nbytes) const {
    return piece < max_split_size || max_split_size == NO_LIMIT ||
           (nbytes >= max_split_size && piece < nbytes + policy::OVERSIZE_SLACK);
  }
  /* Whether a piece of `piece` bytes is cut to serve `nbytes`. */
  bool cuts(uint64_t piece, uint64_t nbytes) const {
    return (max_split_size == NO_LIMIT || nbytes < max_split_size) && piece - nbytes >= remainder;
  }
};

/* The segments of one stream, for small or for large blocks. Free pieces that touch are joined at once. A piece is idle
 * if it is a segment as a whole, and then has no neighbours. */
class Pool {
 public:
  Pool(uint64_t stream, bool small, const Rules &rules, Ledger &ledger, Store<Block> &parts, Runs &runs)
      : stream(stream),
        small(small),
        partial_(runs),
        idle_(runs),
        rules_(rules),
        ledger_(ledger),
        parts_(parts),
        runs_(runs) {}

  const uint64_t stream;
  const bool small;
  uint64_t searches = 0; /* how often a piece was looked for; ages of free pieces are counted in these */
  FenceRef fence;        /* set when the stream was destroyed: once it has passed, any stream may use what is free */

  /* Make sure that the next call of `take`, `take_new` or `put` cannot fail for want of host memory. */
  void prepare() {
    parts_.reserve(2);
    runs_.reserve(Sorted::MARGIN);
  }

  /* The smallest free piece of at least `nbytes`, of equals that of the lowest address; null if none fits. */
  Block *find(uint64_t nbytes);
  /* The same, whether or not the piece is a segment as a whole, and whatever the rules say. */
  Block *smallest(uint64_t nbytes);
  /* Take the first `nbytes` of a free piece for use. */
  Block *take(Block *piece, uint64_t nbytes);
  /* Take `nbytes` at `address`, if they are free as a whole; else null. */
  Block *take_at(uint64_t address, uint64_t nbytes);
  /* Take a new segment in, and its first `nbytes` for use. */
  Block *take_new(Segment *segment, uint64_t nbytes);
  /* Make a block's memory free again, and one with its free neighbours. */
  void put(Block *block);

  bool has_segments() const { return segments_ != nullptr; }
  static bool is_idle(const Block *piece) { return piece->before == nullptr && piece->after == nullptr; }
  /* The pieces that are segments as a whole, smallest first, appended to `found`. */
  void idle(std::vector<Block *> &found) const;
  bool has_idle() const { return !idle_.empty(); }
  /* Let go of a segment that is free as a whole. */
  void remove(Segment *segment);
  /* Take over all segments of a pool of the same kind, with everything in them. */
  void absorb(Pool &other);
  template <class Work>
  void each_segment(Work work) const {
    for (const Segment *segment = segments_; segment != nullptr; segment = segment->after) work(segment);
  }

 private:
  void add(Segment *segment);
  Block *cut(Block *piece, uint64_t nbytes);
  Block *split(Block *piece, uint64_t nbytes);
  void count(int64_t blocks, int64_t nbytes) {
    if (nbytes != 0) ledger_.split(blocks, nbytes, small);
  }
  Sorted &set_of(const Block *piece) { return is_idle(piece) ? idle_ : partial_; }

  Sorted partial_, idle_; /* the free pieces */
  const Rules &rules_;
  Ledger &ledger_;
  Store<Block> &parts_;
  Runs &runs_;
  Segment *segments_ = nullptr;
};

}  // namespace cuplug

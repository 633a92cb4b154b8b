/* Where a program is in the cycle of its plan, and what lies in the cycle's range (planned.py). */
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "block.h"
#include "plans.h"
#include "space.h"

namespace cuplug {

class Follower {
 public:
  /* `trials`: how often the cycle has to be followed before it is believed that it repeats. */
  explicit Follower(Cycle cycle, size_t trials = 0);

  const Cycle cycle;
  Space *space = nullptr; /* the range's, once it has been reserved */

  uint64_t range_bytes(uint64_t granularity) const { return (cycle.height + granularity - 1) / granularity * granularity; }
  /* Whether the program follows the plan, as far as is known. */
  bool follows() const { return next_ != NOWHERE && lacking_ == 0; }
  /* Whether the program has left the cycle before it was believed: it was a part of something larger. */
  bool is_refuted() const { return is_refuted_; }
  /* The offset that the plan has for the next request; UNPLANNED for none. Changes nothing. */
  int64_t propose(uint64_t nbytes) const;
  /* The request has been served, as proposed or elsewhere: go on behind it. */
  void has_served(uint64_t nbytes);
  /* The stream has been destroyed, and the range gone: where the program is has to be found anew. */
  void lose();

  /* The first part between the blocks around these bytes of the range; null if a block lies within them. */
  Block *gap_around(uint64_t address, uint64_t nbytes) const;
  /* Make sure that the next call of `lies` cannot fail for want of host memory. */
  void prepare();
  /* A block has been laid in the range, */
  void lies(Block *block);
  /* and is leaving it. */
  void gone(const Block *block);

 private:
  using Blocks = std::map<uint64_t, Block *>;
  static constexpr size_t NOWHERE = SIZE_MAX;

  uint64_t known_size(size_t place) const { return cycle.sizes[cycle.begin + place % length()]; }
  size_t length() const { return cycle.sizes.size() - cycle.begin; }
  size_t recognised() const;

  std::unordered_map<uint64_t, size_t> windows_; /* by what so many requests in a row add up to: where such begin first */
  size_t next_ = 0;    /* the place in the plan of the request that is expected; NOWHERE where that is unknown */
  size_t lacking_ = 0; /* how many requests in a row have still to agree before the plan is served */
  size_t strange_ = 0; /* how many in a row have not agreed */
  size_t to_prove_;    /* how many have still to agree before the cycle is believed */
  bool is_refuted_ = false;
  std::vector<uint64_t> last_; /* the latest requests, in a ring */
  size_t seen_ = 0;            /* how many there have been; those beyond the ring count as one */
  Blocks blocks_;              /* what lies in the range, by address */
  std::vector<Blocks::node_type> spare_;
};

}  // namespace cuplug

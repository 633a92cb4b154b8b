/* Records the requests of one stream, and works out beside the program what repeats and where it goes (learning.py). */
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "block.h"
#include "follower.h"
#include "policy.h"
#include "planning.h"

namespace cuplug {

class Learner {
 public:
  /* `repetitions`: how often a cycle has to have come. `at_once`: search in the calling thread, not in one beside it.
   * `generation` tells this one's recordings from those of others. `followed`: the sizes of the cycle that is followed
   * already; none is looked for that is the same. */
  Learner(uint64_t stream, size_t repetitions, bool at_once, uint32_t generation, std::vector<uint64_t> followed)
      : stream(stream),
        repetitions_(repetitions),
        at_once_(at_once),
        generation_(generation),
        followed_(std::move(followed)) {}

  const uint64_t stream;
  /* Who follows the cycle that begins with the next request, if one has been found; else null. */
  std::unique_ptr<Follower> due();
  /* Make sure that the next call of `asked` cannot fail for want of host memory. */
  void prepare();
  /* A request has been served by `block`, and */
  void asked(Block *block);
  /* the block is free again. */
  void freed(const Block *block);
  /* Nothing is followed any more. */
  void forget_cycle() { followed_.clear(); }
  /* The search under way; null if there is none. It may be waited for without the allocator. */
  struct Search;
  std::shared_ptr<Search> search() const { return search_; }
  static void wait(const Search &search);

 private:
  void look();

  const size_t repetitions_;
  const bool at_once_;
  uint32_t generation_;
  std::vector<Asked> requests_;
  std::vector<uint64_t> followed_;
  std::shared_ptr<Search> search_;
  size_t next_look_ = policy::WINDOW;
};

}  // namespace cuplug

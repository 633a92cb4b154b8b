/* Blocks of zero bytes. An object is used again and never deleted before its allocator, so that a second free of it is
 * noticed as that of any other block. */
#ifndef CUPLUG_NOTHINGS_H
#define CUPLUG_NOTHINGS_H

#include <atomic>
#include <mutex>
#include <new>

#include "block.h"

namespace cuplug {

/* Owns the blocks that were given back. `mutex_` guards `ready_`; who cannot have it at once makes a new block. */
class Nothings {
 public:
  ~Nothings() {
    for (Block *list : {ready_, returned_.load(std::memory_order_acquire)})
      while (list != nullptr) {
        Block *next = list->next_returned;
        delete list;
        list = next;
      }
  }

  /* A block; null if the process has no memory left. */
  Block *take() {
    if (mutex_.try_lock()) {
      std::lock_guard<std::mutex> guard(mutex_, std::adopt_lock);
      if (ready_ == nullptr) ready_ = returned_.exchange(nullptr, std::memory_order_acq_rel);
      if (ready_ != nullptr) {
        Block *found = ready_;
        ready_ = found->next_returned;
        found->next_returned = nullptr;
        found->user = nullptr;
        return found;
      }
    }
    return new (std::nothrow) Block;
  }

  /* Take a block back. Never blocks and never fails. */
  void give(Block *block) {
    block->next_returned = returned_.load(std::memory_order_relaxed);
    while (!returned_.compare_exchange_weak(block->next_returned, block, std::memory_order_acq_rel)) {
    }
  }

 private:
  std::mutex mutex_;
  Block *ready_ = nullptr;
  std::atomic<Block *> returned_{nullptr};
};

}  // namespace cuplug
#endif

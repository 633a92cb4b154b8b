/* The blocks in use by their addresses, for callers that know nothing else. */
#pragma once

#include <atomic>
#include <mutex>

#include "block.h"

namespace cuplug {

/* Kept from the first question on. It has a mutex of its own, under which nothing else is done, so that a question is
 * answered while the allocator's is held for long. */
class Addresses {
 public:
  bool kept() const { return kept_.load(std::memory_order_relaxed); }

  /* Make sure that the next `add` cannot fail. */
  void prepare() {
    if (!kept()) return;
    std::lock_guard<std::mutex> guard(mutex_);
    table_.prepare();
  }
  void add(Block *block) {
    if (!kept()) return;
    std::lock_guard<std::mutex> guard(mutex_);
    table_.insert(block->address, block);
    block->listed = true;
  }
  void remove(Block *block) {
    if (!block->listed) return;
    std::lock_guard<std::mutex> guard(mutex_);
    table_.erase(block->address);
    block->listed = false;
  }
  /* The block that is live at `address`, or null. `taken`: it is made not live, for the caller to take back. */
  Block *find(uint64_t address, bool taken) {
    std::lock_guard<std::mutex> guard(mutex_);
    Block *block = table_.find(address);
    if (block == nullptr) return nullptr;
    bool live = taken ? block->live.exchange(0, std::memory_order_acq_rel) != 0
                      : block->live.load(std::memory_order_acquire) != 0;
    return live ? block : nullptr;
  }
  /* Begin to keep, with `blocks`. The allocator's mutex is held. */
  template <class Blocks>
  void keep(const Blocks &blocks) {
    std::lock_guard<std::mutex> guard(mutex_);
    for (Block *block : blocks) {
      table_.insert(block->address, block);
      block->listed = true;
    }
    kept_.store(true, std::memory_order_relaxed);
  }
  /* In a process that was forked: a thread of the parent's may have held the mutex. */
  void renew() { new (&mutex_) std::mutex; }

 private:
  std::atomic<bool> kept_{false};
  std::mutex mutex_;
  Table<Block> table_;
};

}  // namespace cuplug

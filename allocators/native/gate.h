/* The mutex of an allocator, and the list of blocks on their way back to it, in one word. */
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "block.h"

namespace cuplug {

/* Whoever enters takes the list along, so that an allocation after a free costs two atomic steps, and the free one.
 * Putting a block on the list waits for nobody. The word is the address of the latest block, and in its lowest bits
 * whether somebody is inside and whether somebody waits; a waiting thread sleeps on a condition variable. */
class Gate {
 public:
  /* Enter unless somebody is inside. `returned`: the blocks on the list, the latest first. */
  bool try_enter(Block **returned) {
    uintptr_t word = word_.load(std::memory_order_relaxed);
    while ((word & INSIDE) == 0) {
      if (!word_.compare_exchange_weak(word, INSIDE, std::memory_order_acquire, std::memory_order_relaxed)) continue;
      *returned = list_of(word);
      return true;
    }
    return false;
  }

  /* The same once nobody is inside. */
  void enter(Block **returned) {
    std::unique_lock<std::mutex> sleep(mutex_);
    while (!try_enter(returned)) {
      uintptr_t word = word_.load(std::memory_order_relaxed);
      if ((word & INSIDE) == 0) continue;
      /* Whoever is inside sees the mark when it leaves, and then needs the mutex to wake this thread. */
      if ((word & WAITED_FOR) != 0 || word_.compare_exchange_weak(word, word | WAITED_FOR, std::memory_order_relaxed))
        left_.wait(sleep);
    }
  }

  void leave() {
    uintptr_t word = INSIDE;
    while (!word_.compare_exchange_weak(word, word & ~(INSIDE | WAITED_FOR), std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
    if ((word & WAITED_FOR) == 0) return;
    {
      std::lock_guard<std::mutex> sleep(mutex_);
    }
    left_.notify_all();
  }

  void push(Block *block) {
    uintptr_t word = word_.load(std::memory_order_relaxed), marked;
    do {
      block->next_returned = list_of(word);
      marked = reinterpret_cast<uintptr_t>(block) | (word & (INSIDE | WAITED_FOR));
    } while (!word_.compare_exchange_weak(word, marked, std::memory_order_release, std::memory_order_relaxed));
  }

  /* The blocks that came onto the list since the caller entered. */
  Block *take_list() { return list_of(word_.fetch_and(INSIDE | WAITED_FOR, std::memory_order_acquire)); }

  /* In a process that was forked: of the threads inside and of those waiting none is here. */
  void renew() {
    new (&mutex_) std::mutex;
    new (&left_) std::condition_variable;
    word_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr uintptr_t INSIDE = 1, WAITED_FOR = 2;
  static Block *list_of(uintptr_t word) { return reinterpret_cast<Block *>(word & ~(INSIDE | WAITED_FOR)); }

  std::atomic<uintptr_t> word_{0};
  std::mutex mutex_; /* of those who wait */
  std::condition_variable left_;
};

}  // namespace cuplug

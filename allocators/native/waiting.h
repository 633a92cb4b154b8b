/* Freed blocks that streams may still touch, behind fences (waiting.py). */
#pragma once

#include <memory>
#include <vector>

#include "block.h"

namespace cuplug {

/* Keeps freed blocks until every fence that they wait for has passed. Fences of one key (a stream) pass in the order in
 * which they were made. Not thread-safe. Nothing is lost when a fence fails: what waits keeps waiting. */
class Waiting {
 public:
  bool empty() const { return queues_.empty(); }

  /* Keep `block` until each of its fences has passed. There is at least one. Throws std::bad_alloc, and then nothing
   * has changed. */
  void add(Block *block);
  void clear();

  /* Hand what waits no longer to `passed`. Never blocks; throws Failed. */
  template <class Passed>
  void poll(Passed passed) {
    for (size_t at = 0; at < queues_.size();) {
      Queue &queue = queues_[at];
      while (queue.first != nullptr && queue.first->fence.done()) step(queue, passed);
      if (queue.first == nullptr)
        queues_.erase(queues_.begin() + ptrdiff_t(at));
      else
        ++at;
    }
  }

  /* Block until every fence has passed, and hand everything to `passed`. Throws Failed. */
  template <class Passed>
  void wait(Passed passed) {
    while (!queues_.empty()) {
      Queue &queue = queues_.front();
      while (queue.first != nullptr) {
        queue.first->fence.wait();
        step(queue, passed);
      }
      queues_.erase(queues_.begin());
    }
  }

 private:
  /* A block's place in the queue of one key. */
  struct Ticket {
    Block *block = nullptr;
    FenceRef fence;
    Ticket *next_spare = nullptr; /* the next in the queue, or the next spare one */
  };
  struct Queue {
    Key key;
    Ticket *first;
    Ticket *last;
  };

  template <class Passed>
  void step(Queue &queue, Passed &passed) {
    Ticket *ticket = queue.first;
    queue.first = ticket->next_spare;
    Block *block = ticket->block;
    ticket->fence = FenceRef();
    tickets_.give(ticket);
    if (--block->uses->remaining == 0) passed(block);
  }

  std::vector<Queue> queues_; /* in the order in which their keys came */
  Store<Ticket> tickets_;
};

}  // namespace cuplug

/* The events of one allocator on their way to whoever observes it. */
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "block.h"

namespace cuplug {

/* The numbers of events.py: they stand in trace files. */
enum EventKind : int32_t {
  ALLOCATE = 1,
  FREED = 2,
  RECORD_STREAM = 3,
  FENCE_PASSED = 4,
  SEGMENT_RESERVE = 5,
  SEGMENT_RELEASE = 6,
  PAGE_CREATE = 7,
  PAGE_MAP = 8,
  PAGE_UNMAP = 9,
  PAGE_RELEASE = 10,
  OUT_OF_MEMORY = 11,
  LIMIT = 18,
  RESET_PEAKS = 19,
  SLEEP = 13,
  WAKE = 14,
  EMPTY_CACHE = 15,
  HOST_PAGE_CREATE = 16,
  HOST_PAGE_RELEASE = 17,
  MOVE = 20
};

/* Where events are written at once, as of one device: what keeps traces hands this in. An allocator keeps each that it
 * was given until its own end, since another thread may be about to write. */
struct EventTarget {
  void (*write)(void *log, const cuplug_event &event, uint8_t device);
  std::shared_ptr<void> log;
  uint8_t device;
};

/* Events go to whoever takes them, to a listener, and into a trace file: to those of them that there are.
 *
 * Any thread puts events in at any time, and waits for none: each is pushed onto a list by one atomic exchange of its
 * head, which also settles the order. Whoever takes events takes the whole list and turns it round. */
class Events {
 public:
  Events() = default;
  Events(const Events &) = delete;
  Events &operator=(const Events &) = delete;
  ~Events() { clear(); }

  /* Keep events for `take`. */
  void observe(bool on) { set(KEPT, on); }
  /* Call `listener` for each event, on the thread that causes it; null for none. */
  void listen(cuplug_listener listener, void *context) {
    listener_context_.store(context, std::memory_order_relaxed);
    listener_.store(listener, std::memory_order_release);
    set(HEARD, listener != nullptr);
  }
  /* Write events into a log; null for none. Throws std::bad_alloc. */
  void record(const EventTarget *target);
  /* Write what `other` tells where this one's goes, from now on. It is there as long as this one. */
  void record_beside(Events &other);
  bool observed() const { return told_.load(std::memory_order_relaxed) != 0; }

  void emit(EventKind kind, uint64_t stream, uint64_t address, uint64_t nbytes, uint64_t requested,
            uint64_t context = 0) {
    tell(kind, stream, address, nbytes, requested, context, KEPT | RECORDED | HEARD);
  }
  void emit(EventKind kind, const Block *block, uint64_t context = 0) {
    if (!observed()) return;
    bool waits = kind == FREED && (block->has_streams.load(std::memory_order_relaxed) != 0 || block->has_fences);
    cuplug_event event{kind, waits, 0, 0, block->stream, block->address, block->nbytes, block->requested, context};
    push(event);
  }

  /* Tell the listener alone, of what is about to happen, */
  void announce(EventKind kind, uint64_t stream, uint64_t address, uint64_t nbytes) {
    tell(kind, stream, address, nbytes, nbytes, 0, HEARD);
  }
  /* and everybody else once it has happened. */
  void emit_announced(EventKind kind, uint64_t stream, uint64_t address, uint64_t nbytes) {
    tell(kind, stream, address, nbytes, nbytes, 0, KEPT | RECORDED);
  }

  /* Take up to `most` of the oldest events. */
  size_t take(cuplug_event *events, size_t most);
  /* How many events the process had no memory for. */
  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }
  void clear();
  /* In a process that was forked: another thread may have been taking events. */
  void drop();

 private:
  struct Entry {
    cuplug_event event;
    Entry *next;
  };

  enum : unsigned { KEPT = 1, RECORDED = 2, HEARD = 4 };
  void tell(EventKind kind, uint64_t stream, uint64_t address, uint64_t nbytes, uint64_t requested, uint64_t context,
            unsigned whom) {
    if ((told_.load(std::memory_order_relaxed) & whom) == 0) return;
    cuplug_event event{kind, 0, 0, 0, stream, address, nbytes, requested, context};
    push(event, whom);
  }
  void set(unsigned who, bool on) {
    if (on)
      told_.fetch_or(who, std::memory_order_release);
    else
      told_.fetch_and(~who, std::memory_order_release);
  }
  void push(cuplug_event &event, unsigned whom = KEPT | RECORDED | HEARD); /* adds the time and the thread */
  void keep(const cuplug_event &event);

  std::atomic<unsigned> told_{0};
  std::atomic<const EventTarget *> target_{nullptr}; /* where events were recorded last, one of `targets_` */
  std::atomic<cuplug_listener> listener_{nullptr};
  std::atomic<void *> listener_context_{nullptr};
  std::atomic<Entry *> newest_{nullptr};
  std::atomic<uint64_t> lost_{0};
  std::mutex taking_; /* guards what follows */
  std::list<EventTarget> targets_;
  Events *beside_ = nullptr;
  Entry *oldest_ = nullptr; /* taken off the list already, in order */
  uint64_t last_time_ = 0;
};

/* Let an allocator write its events into a log; null for none. Throws std::bad_alloc. */
void record(cuplug_allocator *allocator, const EventTarget *target);

}  // namespace cuplug

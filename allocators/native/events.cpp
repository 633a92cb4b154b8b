#include "events.h"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <new>

namespace cuplug {

void Events::push(cuplug_event &event, unsigned whom) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  event.time_ns = uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
  event.thread = uint64_t(pthread_self());
  const unsigned told = told_.load(std::memory_order_acquire) & whom;
  if ((told & RECORDED) != 0) {
    const EventTarget *target = target_.load(std::memory_order_acquire);
    target->write(target->log.get(), event, target->device);
  }
  if ((told & HEARD) != 0) {
    if (cuplug_listener listener = listener_.load(std::memory_order_acquire))
      listener(listener_context_.load(std::memory_order_relaxed), &event);
  }
  if ((told & KEPT) != 0) keep(event);
}

void Events::record(const EventTarget *target) {
  std::lock_guard<std::mutex> guard(taking_);
  if (target != nullptr) {
    auto known = std::find_if(targets_.begin(), targets_.end(), [&](const EventTarget &each) {
      return each.log == target->log && each.device == target->device;
    });
    if (known == targets_.end()) known = targets_.insert(known, *target);
    target_.store(&*known, std::memory_order_release);
  }
  set(RECORDED, target != nullptr);
  if (beside_ != nullptr) beside_->record(target);
}

void Events::record_beside(Events &other) {
  std::lock_guard<std::mutex> guard(taking_);
  beside_ = &other;
  if ((told_.load(std::memory_order_relaxed) & RECORDED) != 0) other.record(target_.load(std::memory_order_relaxed));
}

void Events::keep(const cuplug_event &event) {
  Entry *entry = new (std::nothrow) Entry{event, nullptr};
  if (entry == nullptr) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  entry->next = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(entry->next, entry, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

size_t Events::take(cuplug_event *events, size_t most) {
  std::lock_guard<std::mutex> guard(taking_);
  size_t count = 0;
  while (count < most) {
    if (oldest_ == nullptr) {
      Entry *entry = newest_.exchange(nullptr, std::memory_order_acquire);
      while (entry != nullptr) {
        Entry *older = entry->next;
        entry->next = oldest_;
        oldest_ = entry;
        entry = older;
      }
      if (oldest_ == nullptr) break;
    }
    Entry *entry = oldest_;
    oldest_ = entry->next;
    /* Two threads may push in another order than they read the clock. */
    last_time_ = entry->event.time_ns = std::max(entry->event.time_ns, last_time_);
    events[count++] = entry->event;
    delete entry;
  }
  return count;
}

void Events::clear() {
  cuplug_event event;
  while (take(&event, 1) == 1) {
  }
}

void Events::drop() {
  observe(false);
  listen(nullptr, nullptr);
  record(nullptr);
  new (&taking_) std::mutex;
  newest_.store(nullptr, std::memory_order_relaxed); /* the parent's; what they occupy stays */
  oldest_ = nullptr;
}

}  // namespace cuplug

/* What torch.cuda.memory._record_memory_history keeps: PyTorch's own entries and call stacks, for one device. */
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "pools.h"
#include "versions.h"

namespace cuplug_torch {

/* The call stack of what the calling thread does at present, for the events that come of it. */
class Now {
 public:
  explicit Now(Context context) : before_(std::move(current())) { current() = std::move(context); }
  Now(const Now &) = delete;
  Now &operator=(const Now &) = delete;
  ~Now() { current() = std::move(before_); }

  static Context &current() {
    static thread_local Context context;
    return context;
  }

 private:
  Context before_;
};

class History {
 public:
  History(DeviceIndex device, Pools &pools) : device_(device), pools_(pools) {}

  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  /* Whether there is anybody to tell of events. */
  bool wants_events() const { return enabled() || tracked_.load(std::memory_order_relaxed); }

  /* The call stack, if what is kept goes as far as `level`; else null. Called without any lock. */
  Context gather(RecordContext level) const {
    if (level_.load(std::memory_order_relaxed) < level) return nullptr;
    CreateContextFn recorder = recorder_.load(std::memory_order_relaxed);
    return recorder == nullptr ? nullptr : recorder();
  }

  void record(bool enabled, CreateContextFn recorder, size_t most, RecordContext when, bool clear,
              const std::vector<std::string> &skipped) {
    std::lock_guard<std::mutex> guard(mutex_);
    TORCH_CHECK(when == RecordContext::NEVER || !enabled || recorder != nullptr,
                "cuplug: call stacks are to be kept, but nothing gathers them");
    enabled_.store(enabled);
    recorder_.store(recorder);
    level_.store(enabled ? when : RecordContext::NEVER);
    most_ = most > 0 ? most : 1;
    skipped_ = {skipped.begin(), skipped.end()};
    if (!enabled || clear) entries_.clear();
    while (entries_.size() > most_) entries_.pop_front();
  }

  void track(AllocatorTraceTracker tracker) {
    std::lock_guard<std::mutex> guard(mutex_);
    trackers_.push_back(std::move(tracker));
    tracked_.store(true);
  }

  /* An event of the core's, in the thread in which it happens; the core's mutex may be held. */
  void note(const cuplug_event &event) {
    using Entry = TraceEntry;
    switch (event.kind) {
      case 1: return add(Entry::ALLOC, event.address, event.requested, event.stream);
      case 2:
        add(Entry::FREE_REQUESTED, event.address, event.requested, event.stream);
        if (!event.waits) add(Entry::FREE_COMPLETED, event.address, event.requested, event.stream);
        return;
      case 4: return add(Entry::FREE_COMPLETED, event.address, event.requested, event.stream);
      case 5: return add(Entry::SEGMENT_ALLOC, event.address, event.nbytes, event.stream);
      case 6: return add(Entry::SEGMENT_FREE, event.address, event.nbytes, event.stream);
      case 8: return add(Entry::SEGMENT_MAP, event.address, event.nbytes, event.stream);
      case 9: return add(Entry::SEGMENT_UNMAP, event.address, event.nbytes, event.stream);
      case 11: return add(Entry::OOM, event.nbytes, event.requested, event.stream);
      default: return;
    }
  }
  /* A snapshot was taken while `active` bytes were in use. */
  void note_snapshot(uint64_t active) { add(TraceEntry::SNAPSHOT, 0, active, 0); }

  /* The entries, oldest first. */
  std::vector<TraceEntry> entries(const std::function<int64_t(c10::approx_time_t)> &microseconds) {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<TraceEntry> copied(entries_.begin(), entries_.end());
    for (TraceEntry &entry : copied) entry.time_.t_ = microseconds(entry.time_.approx_t_);
    return copied;
  }

  void push_compile_context(const std::string &context) { compile_contexts().push_back(context); }
  void pop_compile_context() {
    if (!compile_contexts().empty()) compile_contexts().pop_back();
  }
  /* What the calling thread has said of what it does, for all devices. */
  static std::string &user_metadata() {
    static thread_local std::string metadata;
    return metadata;
  }
  /* Something is said of a block that is there already. */
  void annotate(uint64_t address, uint64_t nbytes, uint64_t stream, const std::string &metadata) {
    Now now(gather(RecordContext::ALLOC));
    add(ANNOTATE, address, nbytes, stream, metadata);
  }

 private:
  static std::vector<std::string> &compile_contexts() {
    static thread_local std::vector<std::string> contexts;
    return contexts;
  }

  void add(TraceEntry::Action action, uint64_t address, uint64_t nbytes, uint64_t stream,
           const std::string &metadata = user_metadata()) {
    MempoolId_t pool = pools_.id_of(stream);
    std::lock_guard<std::mutex> guard(mutex_);
    bool keeps_stack = level_.load(std::memory_order_relaxed) >= RecordContext::ALLOC;
    TraceEntry entry = make_entry(action, device_, address, nbytes, without_pool(stream), pool,
                                  keeps_stack ? Now::current() : nullptr,
                                  compile_contexts().empty() ? "" : compile_contexts().back(), metadata);
    for (const AllocatorTraceTracker &tracker : trackers_) tracker(entry);
    if (!enabled() || skipped_.count(name_of(action)) != 0) return;
    if (entries_.size() == most_) entries_.pop_front();
    entries_.push_back(std::move(entry));
  }

  const DeviceIndex device_;
  Pools &pools_;
  std::atomic<bool> enabled_{false}, tracked_{false};
  std::atomic<CreateContextFn> recorder_{nullptr};
  std::atomic<RecordContext> level_{RecordContext::NEVER};
  std::mutex mutex_;
  size_t most_ = 1;
  std::unordered_set<std::string> skipped_;
  std::deque<TraceEntry> entries_;
  std::vector<AllocatorTraceTracker> trackers_;
};

}  // namespace cuplug_torch

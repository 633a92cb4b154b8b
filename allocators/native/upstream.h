/* The table of functions that an allocator gets memory from, with failures as exceptions. */
#pragma once

#include <cstdint>
#include <utility>

#include "cuplug_allocator.h"

namespace cuplug {

/* Ends an operation, which then answers this. */
struct Stopped {
  int answer;
};
/* Upstream, or the limit, has no such piece: OutOfMemoryError in the specification. */
struct OutOfMemory : Stopped {
  OutOfMemory() : Stopped{CUPLUG_OUT_OF_MEMORY} {}
};
/* A call upstream failed, and upstream knows why: DriverError in the specification. */
struct Failed : Stopped {
  Failed() : Stopped{CUPLUG_FAILED} {}
};

/* Throw what the answer of a call upstream stands for. */
inline void check(int answer) {
  if (answer == CUPLUG_OUT_OF_MEMORY) throw OutOfMemory();
  if (answer != CUPLUG_OK) throw Failed();
}

class Upstream;

/* A mark behind the work queued on a stream, shared by all who wait for it. `refused`: the driver would not make it. It
 * is then made when it is asked next, behind more work than it need, which is safe (waiting.py: LateFence). */
struct Fence {
  Upstream *upstream;
  void *handle;
  unsigned references;
  bool refused;
  uint64_t stream;
};

class FenceRef {
 public:
  FenceRef() = default;
  explicit FenceRef(Fence *fence) : fence_(fence) {}
  FenceRef(const FenceRef &other) : fence_(other.fence_) {
    if (fence_ != nullptr) ++fence_->references;
  }
  FenceRef(FenceRef &&other) noexcept : fence_(std::exchange(other.fence_, nullptr)) {}
  FenceRef &operator=(FenceRef other) noexcept {
    std::swap(fence_, other.fence_);
    return *this;
  }
  ~FenceRef() { drop(); }

  explicit operator bool() const { return fence_ != nullptr; }
  uint64_t identity() const { return reinterpret_cast<uintptr_t>(fence_); }
  bool done() const; /* throws Failed */
  void wait() const; /* throws Failed */
  /* Make it if it was refused and is of `stream`, which goes: its handle may soon be another stream's. Throws Failed. */
  void make_before_end_of(uint64_t stream) const {
    if (fence_ != nullptr && fence_->refused && fence_->stream == stream && !is_made()) throw Failed();
  }

 private:
  friend class Upstream;
  void drop() noexcept;
  bool is_made() const;
  Fence *fence_ = nullptr;
};

/* Lets go of what the calling thread holds (an interpreter's lock) while it lives. */
class LetGo {
 public:
  explicit LetGo(const cuplug_thread_hooks &hooks) : hooks_(hooks) {
    if (hooks_.let_go != nullptr) held_ = hooks_.let_go();
  }
  LetGo(const LetGo &) = delete;
  LetGo &operator=(const LetGo &) = delete;
  ~LetGo() {
    if (held_ != nullptr) hooks_.take_again(held_);
  }

 private:
  const cuplug_thread_hooks &hooks_;
  void *held_ = nullptr;
};

class Upstream {
 public:
  explicit Upstream(const cuplug_upstream &table) : table_(table) {}
  Upstream(const Upstream &) = delete;
  Upstream &operator=(const Upstream &) = delete;
  ~Upstream();

  /* Make no call from here on but the last, `close`. */
  void abandon() { abandoned_ = true; }
  void set_hooks(const cuplug_thread_hooks &hooks) { hooks_ = hooks; }
  const cuplug_thread_hooks &hooks() const { return hooks_; }

  uint64_t page_granularity() const { return table_.page_granularity; }
  uint64_t reserve(uint64_t nbytes) { return made_by(table_.reserve, nbytes); }
  void release(uint64_t address) { call(table_.release, address); }
  struct MemoryInfo {
    uint64_t free_bytes = 0, total_bytes = 0;
  };
  MemoryInfo memory_info();
  uint64_t free_bytes() { return memory_info().free_bytes; }
  uint64_t total_bytes() { return memory_info().total_bytes; }
  FenceRef fence(uint64_t stream) { return fence_by(table_.fence, stream); }
  /* The same before pages are unmapped: of all streams, where the upstream can tell. */
  FenceRef fence_everything(uint64_t stream) {
    return fence_by(table_.fence_everything != nullptr ? table_.fence_everything : table_.fence, stream);
  }
  /* For frees, which must not fail: a fence that is made later where the driver makes none (fence_or_later). */
  FenceRef fence_or_refused(uint64_t stream) { return fence_or_refused_by(table_.fence, stream); }
  uint64_t reserve_range(uint64_t nbytes) { return made_by(table_.reserve_range, nbytes); }
  void free_range(uint64_t address, uint64_t nbytes) { call(table_.free_range, address, nbytes); }
  uint64_t create_page(uint64_t nbytes) { return made_by(table_.create_page, nbytes); }
  /* Of the host's memory, where the table has that. */
  uint64_t create_host_page(uint64_t nbytes) { return made_by(table_.create_host_page, nbytes); }
  void release_page(uint64_t handle) { call(table_.release_page, handle); }
  bool shares_pages() const { return table_.export_page != nullptr; }
  /* A file by which other processes map the page, if pages can be shared. */
  int export_page(uint64_t handle) {
    int file = -1;
    call(table_.export_page, handle, &file);
    return file;
  }
  void map(uint64_t address, uint64_t nbytes, uint64_t handle) { call(table_.map, address, nbytes, handle); }
  void set_access(uint64_t address, uint64_t nbytes) { call(table_.set_access, address, nbytes); }
  void unmap(uint64_t address, uint64_t nbytes) { call(table_.unmap, address, nbytes); }

 private:
  friend class FenceRef;
  /* Calls that may take long let others run meanwhile. */
  template <class Function, class... Arguments>
  void call(Function function, Arguments... arguments) {
    int answer;
    {
      LetGo let_go(hooks_);
      answer = function(table_.context, arguments...);
    }
    check(answer);
  }
  template <class Function>
  uint64_t made_by(Function function, uint64_t nbytes) {
    uint64_t made = 0;
    call(function, nbytes, &made);
    return made;
  }
  using Make = int (*)(void *context, uint64_t stream, void **fence);
  FenceRef fence_by(Make make, uint64_t stream);
  FenceRef fence_or_refused_by(Make make, uint64_t stream);

  cuplug_upstream table_;
  cuplug_thread_hooks hooks_{nullptr, nullptr};
  bool abandoned_ = false;
};

}  // namespace cuplug

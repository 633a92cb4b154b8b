#include "upstream.h"

#include <new>

namespace cuplug {

Upstream::~Upstream() {
  if (table_.close != nullptr) table_.close(table_.context);
}

Upstream::MemoryInfo Upstream::memory_info() {
  MemoryInfo found;
  check(table_.memory_info(table_.context, &found.free_bytes, &found.total_bytes));
  return found;
}

FenceRef Upstream::fence_by(Make make, uint64_t stream) {
  FenceRef made = fence_or_refused_by(make, stream);
  if (made.fence_->refused) throw Failed();
  return made;
}

FenceRef Upstream::fence_or_refused_by(Make make, uint64_t stream) {
  Fence *fence = new Fence{this, nullptr, 1, false, stream};
  FenceRef made(fence);
  fence->refused = make(table_.context, stream, &fence->handle) != CUPLUG_OK;
  return made;
}

/* Whether there is one: of those that were refused it is tried again. */
bool FenceRef::is_made() const {
  if (!fence_->refused) return true;
  const cuplug_upstream &table = fence_->upstream->table_;
  if (fence_->handle != nullptr) table.fence_drop(table.context, fence_->handle); /* what upstream left there */
  fence_->handle = nullptr;
  fence_->refused = table.fence(table.context, fence_->stream, &fence_->handle) != CUPLUG_OK;
  return !fence_->refused;
}

bool FenceRef::done() const {
  if (!is_made()) return false;
  int passed = 0;
  const cuplug_upstream &table = fence_->upstream->table_;
  check(table.fence_done(table.context, fence_->handle, &passed));
  return passed != 0;
}

void FenceRef::wait() const {
  if (!is_made()) throw Failed();
  fence_->upstream->call(fence_->upstream->table_.fence_wait, fence_->handle);
}

void FenceRef::drop() noexcept {
  if (fence_ == nullptr || --fence_->references != 0) return;
  Upstream *upstream = fence_->upstream;
  if (fence_->handle != nullptr && !upstream->abandoned_)
    upstream->table_.fence_drop(upstream->table_.context, fence_->handle);
  delete fence_;
}

}  // namespace cuplug

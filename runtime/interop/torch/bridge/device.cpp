#include "device.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace cuplug_torch {

namespace {

std::string text_of(uint64_t nbytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
  int unit = nbytes <= 1024 ? 0 : nbytes <= 1048576 ? 1 : nbytes <= 1073741824 ? 2 : 3;
  char text[64];
  if (unit == 0)
    std::snprintf(text, sizeof text, "%llu bytes", static_cast<unsigned long long>(nbytes));
  else
    std::snprintf(text, sizeof text, "%.2f %s", double(nbytes) / std::pow(1024.0, unit), units[unit]);
  return text;
}

uint64_t number_of_address(void *address) { return reinterpret_cast<uint64_t>(address); }
/* As the context of what is allocated: observers are told. */
constexpr uint64_t ASKED_BY_TORCH = uint64_t(CUPLUG_LIBRARY_TORCH) << CUPLUG_LIBRARY_SHIFT;

bool is_asleep(const cuplug_segment &segment) { return (segment.is_expandable & CUPLUG_SEGMENT_ASLEEP) != 0; }

void *pointer_to(uint64_t address) { return reinterpret_cast<void *>(address); }

Stat stat_of(const cuplug_counter &counter) {
  Stat stat;
  stat.current = counter.current;
  stat.peak = counter.peak;
  stat.allocated = counter.allocated;
  stat.freed = counter.freed;
  return stat;
}

/* The counters of statistics, one after the other. */
class CountersOf {
 public:
  explicit CountersOf(cuplug_statistics &of) : first_(&of.all.allocation) {}
  size_t size() const { return 3 * sizeof(cuplug_counters) / sizeof(cuplug_counter); }
  cuplug_counter *begin() const { return first_; }
  cuplug_counter *end() const { return first_ + size(); }
  cuplug_counter &operator[](size_t at) const { return first_[at]; }

 private:
  cuplug_counter *first_;
};
CountersOf counters_of(cuplug_statistics &of) { return CountersOf(of); }

void add(cuplug_statistics &sum, const cuplug_statistics &counted) {
  static_assert(sizeof(cuplug_statistics) % sizeof(int64_t) == 0, "it is counters alone");
  auto *to = reinterpret_cast<int64_t *>(&sum);
  const auto *from = reinterpret_cast<const int64_t *>(&counted);
  for (size_t at = 0; at < sizeof(cuplug_statistics) / sizeof(int64_t); ++at) to[at] += from[at];
}

void listen(void *context, const cuplug_event *event) { static_cast<History *>(context)->note(*event); }

/* What callbacks that PyTorch registers for such a case have freed: whether anything. */
bool free_elsewhere() {
  bool freed = false;
  for (const auto &name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
    freed = c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute() || freed;
  return freed;
}

}  // namespace

/* --- allocation and free */

void *Device::allocate(size_t nbytes, cudaStream_t stream) {
  uint64_t key = pools.any_underway() ? pools.key(stream) : number_of_stream(stream);
  cuplug_allocator *from = allocator_for(key);
  Context context = history.gather(RecordContext::STATE);
  cuplug_block *block = nullptr;
  {
    Now now(context);
    int answer = core_.allocate(from, nbytes, key, ASKED_BY_TORCH, &block);
    if (answer != CUPLUG_OK) block = allocate_after(answer, nbytes, stream, key);
  }
  if (context != nullptr) core_.block_set_user(block, new Kept{std::move(context)});
  void *address = pointer_to(core_.block_address(block));
  report(address, int64_t(core_.block_nbytes(block)));
  if (const c10::impl::PyInterpreter *interpreter = c10::impl::GPUTrace::get_trace())
    (*interpreter)->trace_gpu_memory_allocation(c10::kCUDA, reinterpret_cast<uintptr_t>(address));
  return address;
}

bool Device::free(void *address) {
  Place place = find_place(address);
  if (place.block == nullptr) return false;
  if (const c10::impl::PyInterpreter *interpreter = c10::impl::GPUTrace::get_trace())
    (*interpreter)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(address));
  int64_t nbytes = int64_t(core_.block_nbytes(place.block));
  give_back(place);
  report(address, -nbytes);
  return true;
}

void Device::give_back(const Place &place) {
  cuplug_block *block = place.block;
  Kept *kept = static_cast<Kept *>(core_.block_user(block));
  if (kept == nullptr && !history.wants_events()) {
    core_.free(place.allocator, block, 0);
    return;
  }
  Context context = history.gather(RecordContext::ALL);
  if (kept != nullptr) {
    std::lock_guard<std::mutex> guard(kept_mutex_);
    if (context == nullptr) context = kept->context;
    core_.block_set_user(block, nullptr);
    delete kept;
  }
  Now now(std::move(context));
  core_.free(place.allocator, block, 0);
}

bool Device::record_stream(void *address, cudaStream_t stream) {
  Place place = find_place(address);
  if (place.block == nullptr) return false;
  if (without_pool(core_.block_stream(place.block)) == number_of_stream(stream)) return true;
  int answer = core_.record_stream(place.allocator, place.block, number_of_stream(stream), 0);
  if (answer != CUPLUG_OK && answer != CUPLUG_CLOSED) fail(answer, 0);
  return true;
}

bool Device::annotate(void *address, const std::string &metadata) {
  Place place = find_place(address);
  if (place.block == nullptr) return false;
  if (history.enabled())
    history.annotate(number_of_address(address), core_.block_requested(place.block), core_.block_stream(place.block),
                     metadata);
  return true;
}

void Device::report(void *address, int64_t change) {
  if (!c10::memoryProfilingEnabled()) return;
  cuplug_statistics statistics = added_statistics();
  c10::reportMemoryUsageToProfiler(address, change, size_t(statistics.all.allocated_bytes.current),
                                   size_t(statistics.all.reserved_bytes.current),
                                   c10::Device(c10::DeviceType::CUDA, index_));
}

cuplug_allocator *Device::find_allocator() {
  char message[1024] = "";
  auto *found = reinterpret_cast<cuplug_allocator *>(find_(index_, message, sizeof message));
  TORCH_CHECK(found != nullptr, "cuplug has no allocator for CUDA device ", int(index_), ": ", message);
  cuplug_allocator *other = nullptr; /* of a thread that was quicker */
  has_pages_.store(core_.allocator_has_pages(found) != 0);
  if (!allocator_.compare_exchange_strong(other, found, std::memory_order_acq_rel)) return other;
  if (fraction_ != 1.0) set_fraction(fraction_);
  settle_listening();
  return found;
}

cuplug_allocator *Device::plain_allocator() {
  if (cuplug_allocator *made = plain_.load(std::memory_order_acquire)) return made;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (cuplug_allocator *made = plain_.load()) return made;
    cuplug_upstream upstream{};
    cuplug_allocator *made = nullptr;
    int answer = core_.cuda_upstream(index_, &upstream);
    if (answer == CUPLUG_OK) {
      answer = core_.allocator_create("caching", nullptr, 0, &upstream, &made);
      if (answer != CUPLUG_OK) upstream.close(upstream.context);
    }
    TORCH_CHECK(answer == CUPLUG_OK, "cuplug: there is no allocator for memory without pages (", answer, ")");
    core_.allocator_set_thread_hooks(made, OwnMemory::hooks());
    core_.record_beside(allocator_.load(), made);
    plain_.store(made, std::memory_order_release);
  }
  if (fraction_ != 1.0) set_fraction(fraction_);
  settle_listening();
  return plain_.load();
}

void Device::settle_listening() {
  for (const auto &one : allocators()) core_.listen(one.get(), history.wants_events() ? listen : nullptr, &history);
}

/* --- when an allocation fails */

cuplug_block *Device::allocate_after(int answer, size_t nbytes, cudaStream_t stream, uint64_t key) {
  cuplug_shortage shortage{};
  cuplug_allocator *from = allocator_for(key);
  if (answer == CUPLUG_OUT_OF_MEMORY && (from == allocator() || from == plain_.load()))
    core_.get_shortage(&shortage);
  else
    shortage = shortage_now(nbytes);
  bool is_short = answer == CUPLUG_OUT_OF_MEMORY || is_capturing_refused(answer) ||
                  (answer == CUPLUG_FAILED && nbytes > shortage.total_bytes); /* no range of addresses is so large */
  if (!is_short) fail(answer, nbytes);
  cuplug_block *block = nullptr;
  auto tried = [&](uint64_t where) {
    return core_.allocate(allocator_for(where), nbytes, where, ASKED_BY_TORCH, &block) == CUPLUG_OK;
  };
  if (free_in_other(from) && tried(key)) return block;
  if (free_elsewhere() && tried(key)) return block;
  if (number_of(key) == 0)
    for (uint64_t other : pools.helping_keys(stream))
      if (tried(other)) return block;
  if (answer != CUPLUG_OUT_OF_MEMORY) note_shortage(shortage);
  raise_shortage(shortage);
}

/* Give back what the device's other allocator holds unused: with pages for `from`, which has none, or the other way round. */
bool Device::free_in_other(cuplug_allocator *from) {
  cuplug_allocator *plain = plain_.load(std::memory_order_acquire);
  uint64_t released = 0;
  if (plain == nullptr) return false;
  return core_.release_cached(from == plain ? allocator() : plain, &released) == CUPLUG_OK && released != 0;
}

/* Count a shortage that the core does not know of, and tell of it. */
void Device::note_shortage(const cuplug_shortage &shortage) {
  other_shortages_.fetch_add(1);
  cuplug_event event{};
  event.kind = 11;
  event.stream = shortage.stream;
  event.nbytes = shortage.free_bytes;
  event.requested = shortage.requested;
  if (history.wants_events()) history.note(event);
}

/* What is short, where the core has not said so. */
cuplug_shortage Device::shortage_now(size_t nbytes) {
  cuplug_shortage shortage{};
  cuplug_statistics ours = added_statistics();
  size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  shortage.requested = nbytes;
  shortage.free_bytes = free;
  shortage.total_bytes = total;
  shortage.memory_limit = UINT64_MAX;
  shortage.allocated_bytes = uint64_t(ours.all.allocated_bytes.current);
  shortage.requested_bytes = uint64_t(ours.all.requested_bytes.current);
  shortage.reserved_bytes = uint64_t(ours.all.reserved_bytes.current);
  shortage.largest_free = largest_free();
  return shortage;
}

/* Whether the driver would not wait for work that is being captured: memory is short then as long as it is. */
bool Device::is_capturing_refused(int answer) const {
  int code = core_.cuda_last_result();
  return answer == CUPLUG_FAILED && pools.any_underway() && code >= 900 && code <= 908;
}

void Device::fail(int answer, size_t nbytes) {
  if (std::exception_ptr theirs = OwnMemory::take_thrown()) std::rethrow_exception(theirs);
  if (answer == CUPLUG_NO_HOST_MEMORY) throw std::bad_alloc();
  TORCH_CHECK(answer != CUPLUG_ASLEEP, "memory with the tag of this thread is asleep on CUDA device ", int(index_),
              "; wake it (cuplug.cuda.wake) before more is allocated within that cuplug.cuda.memory_tag");
  TORCH_CHECK(answer != CUPLUG_CLOSED, "cuplug's runtime was closed: there is no more memory on CUDA device ", int(index_));
  if (answer == CUPLUG_FAILED && core_.cuda_last_result() != 0)
    C10_CUDA_CHECK(static_cast<cudaError_t>(core_.cuda_last_result()));
  TORCH_CHECK(false, "cuplug could not allocate ", nbytes, " bytes on CUDA device ", int(index_), " (", answer, ")");
}

void Device::raise_shortage(const cuplug_shortage &is) {
  uint64_t nbytes = is.requested;
  std::vector<OutOfMemoryObserver> observers;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    observers = observers_;
  }
  bool limited = is.memory_limit < is.total_bytes;
  uint64_t total = limited ? is.memory_limit : is.total_bytes;
  c10::reportOutOfMemoryToProfiler(int64_t(nbytes), is.allocated_bytes, is.reserved_bytes,
                                   c10::Device(c10::DeviceType::CUDA, index_));
  for (const OutOfMemoryObserver &observer : observers) observer(index_, nbytes, total, is.free_bytes);
  std::string allowed = limited ? text_of(is.memory_limit) + " allowed; " : "";
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", text_of(nbytes), ". GPU ",
                   int(index_), " has a total capacity of ", text_of(is.total_bytes), " of which ",
                   text_of(is.free_bytes), " is free. ", allowed, "Of the allocated memory ",
                   text_of(is.allocated_bytes), " is allocated by PyTorch (", text_of(is.requested_bytes),
                   " requested), and ", text_of(is.reserved_bytes - is.allocated_bytes),
                   " is reserved by PyTorch but unallocated. The largest free piece has ", text_of(is.largest_free),
                   ". Memory is cuplug's: whatever it could give back, it has given back before this error.");
}

void Device::observe_shortages(OutOfMemoryObserver observer) {
  std::lock_guard<std::mutex> guard(mutex_);
  observers_.push_back(std::move(observer));
}

/* --- the whole */

void Device::release_cached(const MempoolId_t &id) {
  Now now(history.gather(RecordContext::ALL)); /* for the segments that go */
  auto check = [&](int answer) {
    if (answer != CUPLUG_OK && answer != CUPLUG_CLOSED && !is_capturing_refused(answer)) fail(answer, 0);
  };
  uint64_t released = 0;
  if (id == MempoolId_t{0, 0}) {
    for (const auto &one : allocators()) check(core_.release_cached(one.get(), &released));
  } else { /* while the pool is there, all stays */
    std::vector<uint64_t> left = pools.left_by(id);
    for (const auto &one : allocators())
      for (uint64_t key : left) check(core_.release_forgotten(one.get(), key, &released));
  }
  if (own_count_.load() != 0) drop_unused_own();
}

void Device::set_fraction(double fraction) {
  fraction_ = fraction;
  for (cuplug_allocator *used : {if_used(), plain_.load()}) { /* each of the two, should there be both */
    if (used == nullptr) continue;
    c10::cuda::CUDAGuard guard(index_);
    size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    core_.allocator_set_memory_limit(used, uint64_t(fraction * double(total)));
  }
}

size_t Device::largest_free() {
  cuplug_allocator *used = if_used();
  size_t largest = 0;
  if (used == nullptr) return largest;
  Map map(core_, used);
  for (const cuplug_segment &segment : map)
    for (const cuplug_piece *piece = map.begin_of(segment); piece != map.end_of(segment); ++piece)
      if (piece->state == CUPLUG_INACTIVE && !is_asleep(segment)) largest = std::max<size_t>(largest, piece->nbytes);
  return largest;
}

bool Device::find_segment(void *address, void **start, size_t *nbytes, bool *is_expandable) {
  Place place = find_place(address);
  if (place.block == nullptr) return false;
  Map map(core_, place.allocator);
  const cuplug_segment *segment = map.holding(number_of_address(address));
  if (segment == nullptr) return false;
  *start = pointer_to(segment->address);
  *nbytes = segment->nbytes;
  *is_expandable = segment->is_expandable != 0;
  return true;
}

bool Device::share(void *address, std::vector<cuplug_shared_page> &pages) {
  Place place = find_place(address);
  if (place.block == nullptr) return false;
  if (!core_.allocator_has_pages(place.allocator)) return true;
  size_t count = 0;
  int answer = CUPLUG_OK;
  do {
    pages.resize(count + 1);
    answer = core_.share_pages(place.allocator, number_of_address(address), pages.data(), pages.size(), &count);
  } while (answer == CUPLUG_OK && count > pages.size());
  pages.resize(answer == CUPLUG_OK ? count : 0);
  TORCH_CHECK(answer != CUPLUG_NOT_SUPPORTED,
              "this tensor cannot be shared with other processes: its memory is the host's, or the driver keeps pages "
              "within a process. Allocate it after torch.cuda.memory._set_allocator_settings("
              "'expandable_segments:False'), or choose caching: cuplug.interop.torch.install(\"caching\")");
  if (answer != CUPLUG_OK) fail(answer, 0);
  return true;
}

std::vector<StreamSegmentSize> Device::expandable_sizes() {
  std::vector<StreamSegmentSize> sizes;
  cuplug_allocator *used = if_used();
  if (used == nullptr) return sizes;
  Map map(core_, used);
  for (const cuplug_segment &segment : map)
    if (segment.is_expandable && !is_asleep(segment) && number_of(segment.stream) == 0)
      sizes.emplace_back(static_cast<cudaStream_t>(pointer_to(segment.stream)), segment.is_small != 0, segment.nbytes);
  return sizes;
}

DeviceStats Device::statistics() {
  DeviceStats stats;
  cuplug_statistics ours = added_statistics();
  const cuplug_counters *groups[] = {&ours.all, &ours.small, &ours.large};
  for (size_t group = 0; group < 3; ++group) { /* in the order of StatType */
    const cuplug_counters &from = *groups[group];
    stats.allocation[group] = stat_of(from.allocation);
    stats.segment[group] = stat_of(from.segment);
    stats.active[group] = stat_of(from.active);
    stats.inactive_split[group] = stat_of(from.inactive_split);
    stats.allocated_bytes[group] = stat_of(from.allocated_bytes);
    stats.reserved_bytes[group] = stat_of(from.reserved_bytes);
    stats.active_bytes[group] = stat_of(from.active_bytes);
    stats.inactive_split_bytes[group] = stat_of(from.inactive_split_bytes);
    stats.requested_bytes[group] = stat_of(from.requested_bytes);
  }
  stats.num_alloc_retries = ours.num_alloc_retries;
  stats.num_ooms = ours.num_ooms + other_shortages_.load();
  stats.num_sync_all_streams = ours.num_sync_all_streams;
  stats.num_device_alloc = ours.num_device_alloc;
  stats.num_device_free = ours.num_device_free;
  stats.max_split_size = int64_t(configuration().max_split_size);
  return stats;
}

void Device::reset_peaks() {
  for (const auto &one : allocators()) core_.reset_peaks(one.get());
  std::lock_guard<std::mutex> guard(mutex_);
  ++resets_;
  for (cuplug_counter &counter : counters_of(past_)) counter.peak = 0;
}

void Device::reset_accumulated() {
  other_shortages_.store(0);
  for (const auto &one : allocators()) core_.reset_accumulated(one.get());
  std::lock_guard<std::mutex> guard(mutex_);
  ++resets_;
  cuplug_statistics peaks = past_;
  past_ = {};
  for (size_t at = 0; at < counters_of(past_).size(); ++at) counters_of(past_)[at].peak = counters_of(peaks)[at].peak;
}

std::vector<SegmentInfo> Device::segments(const MempoolId_t &id) {
  std::vector<SegmentInfo> infos;
  for (const auto &one : allocators()) add_segments(one.get(), id, infos);
  return infos;
}

void Device::add_segments(cuplug_allocator *used, const MempoolId_t &id, std::vector<SegmentInfo> &infos) {
  std::shared_ptr<OwnMemory> own = own_memory(used);
  Map map(core_, used);
  core_.find_block(used, 0); /* the first question enters the allocator, which nobody does with a mutex of the device's */
  std::lock_guard<std::mutex> guard(kept_mutex_);
  for (const cuplug_segment &segment : map) {
    MempoolId_t owner = pools.id_of(segment.stream);
    if (id != MempoolId_t{0, 0} && owner != id) continue;
    SegmentInfo info;
    info.device = index_;
    info.address = segment.address;
    info.total_size = segment.nbytes;
    info.stream = recorded_stream(without_pool(segment.stream));
    info.is_large = segment.is_small == 0;
    info.is_expandable = segment.is_expandable != 0;
    info.owner_private_pool_id = owner;
    set_order(info, own != nullptr ? own->order_of(segment.address) : int32_t(infos.size()), 0);
    for (const cuplug_piece *piece = map.begin_of(segment); piece != map.end_of(segment); ++piece) {
      BlockInfo block;
      block.size = piece->nbytes;
      block.requested_size = piece->requested;
      block.allocated = piece->state == CUPLUG_ACTIVE;
      block.active = piece->state != CUPLUG_INACTIVE;
      if (block.allocated) {
        info.allocated_size += piece->nbytes;
        cuplug_block *found = core_.find_block(used, piece->address);
        Kept *kept = found == nullptr ? nullptr : static_cast<Kept *>(core_.block_user(found));
        if (kept != nullptr) block.context_when_allocated = kept->context;
      }
      if (block.active) {
        info.active_size += piece->nbytes;
        info.requested_size += piece->requested;
      }
      info.blocks.push_back(std::move(block));
    }
    infos.push_back(std::move(info));
  }
}

/* --- private pools */

void Device::create_pool(const MempoolId_t &id, std::shared_ptr<CUDAAllocator> giver) {
  bool is_new = pools.number(id) == 0;
  pools.create_or_keep(id);
  if (giver == nullptr || !is_new) return;
  auto made = std::make_unique<OwnMemory>(core_, index_, std::move(giver));
  {
    std::lock_guard<std::mutex> guard(mutex_);
    own_.emplace_back(pools.number(id), std::move(made));
    own_count_.store(own_.size(), std::memory_order_release);
  }
  settle_listening();
}

void Device::release_pool(const MempoolId_t &id) {
  uint64_t number = pools.number(id);
  for (uint64_t key : pools.release(id))
    for (const auto &one : allocators()) {
      int answer = core_.forget_stream(one.get(), key);
      if (answer != CUPLUG_OK && answer != CUPLUG_CLOSED) fail(answer, 0);
    }
  if (pools.number(id) != 0) return;
  std::lock_guard<std::mutex> guard(mutex_);
  for (auto &one : own_)
    if (one.first == number) one.first = 0;
}

void Device::keep_segments_whole(const MempoolId_t &id) {
  std::shared_ptr<OwnMemory> own;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    for (const auto &one : own_)
      if (one.first == pools.number(id)) own = one.second;
  }
  if (own != nullptr) core_.allocator_keep_whole(own->allocator());
}

Place Device::find_own_place(void *address) {
  for (const auto &one : allocators())
    if (cuplug_block *found = core_.find_block(one.get(), number_of_address(address))) return {one.get(), found};
  return {nullptr, nullptr};
}

cuplug_allocator *Device::own_allocator(uint64_t key) {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    for (auto &one : own_)
      if (one.first == number_of(key)) return one.second->allocator();
  }
  return nullptr;
}

std::shared_ptr<OwnMemory> Device::own_memory(const cuplug_allocator *allocator) {
  std::lock_guard<std::mutex> guard(mutex_);
  for (auto &one : own_)
    if (one.second->allocator() == allocator) return one.second;
  return nullptr;
}

std::vector<std::shared_ptr<cuplug_allocator>> Device::allocators(cuplug_statistics *past) {
  std::vector<std::shared_ptr<cuplug_allocator>> found;
  for (cuplug_allocator *used : {if_used(), plain_.load(std::memory_order_acquire)}) /* they live for ever */
    if (used != nullptr) found.emplace_back(std::shared_ptr<void>(), used);
  if (past == nullptr && own_count_.load(std::memory_order_acquire) == 0) return found;
  std::lock_guard<std::mutex> guard(mutex_);
  if (past != nullptr) *past = past_;
  for (auto &one : own_) found.emplace_back(one.second, one.second->allocator());
  return found;
}

/* Of pools that have ended and given all back, nothing is left but what they have counted. */
void Device::drop_unused_own() {
  std::vector<std::shared_ptr<OwnMemory>> ended; /* those that go are destroyed with it, once `mutex_` is let go */
  uint64_t resets = 0;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    resets = resets_;
    for (const auto &one : own_)
      if (one.first == 0) ended.push_back(one.second);
  }
  for (const auto &own : ended) {
    cuplug_statistics counted{};
    if (core_.get_statistics(own->allocator(), &counted) != CUPLUG_OK || counted.all.reserved_bytes.current != 0) continue;
    std::lock_guard<std::mutex> guard(mutex_);
    if (resets != resets_) return; /* what was read may be from before a reset: they go another time */
    auto found = std::find_if(own_.begin(), own_.end(), [&](const auto &one) { return one.second == own; });
    if (found == own_.end()) continue; /* another thread has dropped it */
    for (size_t at = 0; at < counters_of(past_).size(); ++at) { /* at different times: the highest of their peaks */
      int64_t &peak = counters_of(counted)[at].peak;
      peak = std::max<int64_t>(peak - counters_of(past_)[at].peak, 0);
    }
    add(past_, counted);
    own_.erase(found);
    own_count_.store(own_.size(), std::memory_order_release);
  }
}

/* Of the device's memory and of what private pools have brought together. Peaks are added, too: what was in use at once
 * was that much at most. */
cuplug_statistics Device::added_statistics() {
  cuplug_statistics sum{};
  for (const auto &one : allocators(&sum)) { /* at one time: a pool that goes meanwhile is counted once */
    cuplug_statistics counted{};
    int answer = core_.get_statistics(one.get(), &counted);
    if (answer != CUPLUG_OK) fail(answer, 0);
    add(sum, counted);
  }
  return sum;
}

/* The blocks of the pool of this number that are in the program's hands, by address. */
std::vector<Place> Device::live_blocks(uint64_t pool) {
  std::vector<Place> places;
  std::vector<cuplug_block *> blocks;
  size_t count = 0;
  if (pool == 0) return places;
  for (const auto &one : allocators()) {
    count = 0;
    do {
      blocks.resize(count + 1024);
      int answer = core_.get_live_blocks(one.get(), blocks.data(), blocks.size(), &count);
      if (answer != CUPLUG_OK) fail(answer, 0);
    } while (count > blocks.size());
    for (size_t at = 0; at < count; ++at)
      if (number_of(core_.block_stream(blocks[at])) == pool) places.push_back({one.get(), blocks[at]});
  }
  return places;
}

bool Device::holds_exactly(const MempoolId_t &id, const std::unordered_set<void *> &expected) {
  std::vector<Place> places = live_blocks(pools.number(id));
  if (places.size() != expected.size()) return false;
  for (const Place &place : places)
    if (expected.count(pointer_to(core_.block_address(place.block))) == 0) return false;
  return true;
}

std::shared_ptr<AllocatorState> Device::checkpoint(const MempoolId_t &id) {
  auto state = std::make_shared<Checkpoint>();
  state->id = id;
  for (const auto &[from, block] : live_blocks(pools.number(id)))
    state->blocks.push_back({core_.block_address(block), core_.block_nbytes(block), core_.block_requested(block),
                             core_.block_stream(block)});
  return state;
}

CheckpointDelta Device::restore(const std::shared_ptr<AllocatorState> &state, void (*deleter)(void *)) {
  auto wanted = std::dynamic_pointer_cast<Checkpoint>(state);
  TORCH_CHECK(wanted != nullptr, "cuplug: this is no state that getCheckpointState has given");
  uint64_t pool = pools.number(wanted->id);
  CheckpointDelta delta;
  for (const Place &place : live_blocks(pool)) {
    delta.ptrs_freed.push_back(pointer_to(core_.block_address(place.block)));
    give_back(place);
  }
  for (const Checkpoint::Entry &entry : wanted->blocks) {
    cuplug_block *block = nullptr;
    TORCH_CHECK(number_of(entry.stream) == pool, "cuplug: the private pool of this state has ended");
    int answer = core_.allocate_at(allocator_for(entry.stream), entry.address, entry.nbytes, entry.requested, entry.stream,
                                   ASKED_BY_TORCH, &block);
    TORCH_CHECK(answer == CUPLUG_OK, "cuplug: ", entry.nbytes, " bytes at ", pointer_to(entry.address),
                " of a private pool's earlier state are not free there");
    void *address = pointer_to(core_.block_address(block));
    delta.dataptrs_allocd.emplace_back(address, address, deleter, c10::Device(c10::DeviceType::CUDA, index_));
  }
  return delta;
}

}  // namespace cuplug_torch

#include "device.h"

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
  cuplug_allocator *from = allocator();
  uint64_t key = pools.any_underway() ? pools.key(stream) : number_of_stream(stream);
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
  cuplug_block *block = find_block(address);
  if (block == nullptr) return false;
  if (const c10::impl::PyInterpreter *interpreter = c10::impl::GPUTrace::get_trace())
    (*interpreter)->trace_gpu_memory_deallocation(c10::kCUDA, reinterpret_cast<uintptr_t>(address));
  int64_t nbytes = int64_t(core_.block_nbytes(block));
  give_back(block);
  report(address, -nbytes);
  return true;
}

void Device::give_back(cuplug_block *block) {
  Kept *kept = static_cast<Kept *>(core_.block_user(block));
  if (kept == nullptr && !history.wants_events()) {
    core_.free(if_used(), block, 0);
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
  core_.free(if_used(), block, 0);
}

bool Device::record_stream(void *address, cudaStream_t stream) {
  cuplug_block *block = find_block(address);
  if (block == nullptr) return false;
  if (without_pool(core_.block_stream(block)) == number_of_stream(stream)) return true;
  int answer = core_.record_stream(if_used(), block, number_of_stream(stream), 0);
  if (answer != CUPLUG_OK && answer != CUPLUG_CLOSED) fail(answer, 0);
  return true;
}

void Device::report(void *address, int64_t change) {
  if (!c10::memoryProfilingEnabled()) return;
  cuplug_statistics statistics{};
  core_.get_statistics(if_used(), &statistics);
  c10::reportMemoryUsageToProfiler(address, change, size_t(statistics.all.allocated_bytes.current),
                                   size_t(statistics.all.reserved_bytes.current),
                                   c10::Device(c10::DeviceType::CUDA, index_));
}

cuplug_allocator *Device::find_allocator() {
  char message[1024] = "";
  auto *found = reinterpret_cast<cuplug_allocator *>(find_(index_, message, sizeof message));
  TORCH_CHECK(found != nullptr, "cuplug has no allocator for CUDA device ", int(index_), ": ", message);
  cuplug_allocator *none = nullptr;
  allocator_.compare_exchange_strong(none, found, std::memory_order_acq_rel);
  if (fraction_ != 1.0) set_fraction(fraction_);
  settle_listening();
  return found;
}

void Device::settle_listening() {
  cuplug_allocator *used = if_used();
  if (used != nullptr) core_.listen(used, history.wants_events() ? listen : nullptr, &history);
}

/* --- when an allocation fails */

cuplug_block *Device::allocate_after(int answer, size_t nbytes, cudaStream_t stream, uint64_t key) {
  cuplug_shortage shortage{};
  if (answer == CUPLUG_OUT_OF_MEMORY)
    core_.get_shortage(&shortage);
  else
    shortage = shortage_now(nbytes);
  bool is_short = answer == CUPLUG_OUT_OF_MEMORY || is_capturing_refused(answer) ||
                  (answer == CUPLUG_FAILED && nbytes > shortage.total_bytes); /* no range of addresses is so large */
  if (!is_short) fail(answer, nbytes);
  cuplug_block *block = nullptr;
  if (free_elsewhere() && core_.allocate(allocator(), nbytes, key, ASKED_BY_TORCH, &block) == CUPLUG_OK) return block;
  if (number_of(key) == 0)
    for (uint64_t other : pools.helping_keys(stream))
      if (core_.allocate(allocator(), nbytes, other, ASKED_BY_TORCH, &block) == CUPLUG_OK) return block;
  if (answer != CUPLUG_OUT_OF_MEMORY) note_shortage(shortage);
  raise_shortage(shortage);
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
  cuplug_statistics ours{};
  size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  core_.get_statistics(if_used(), &ours);
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
  cuplug_allocator *used = if_used();
  if (used == nullptr) return;
  Now now(history.gather(RecordContext::ALL)); /* for the segments that go */
  auto check = [&](int answer) {
    if (answer != CUPLUG_OK && answer != CUPLUG_CLOSED && !is_capturing_refused(answer)) fail(answer, 0);
  };
  uint64_t released = 0;
  if (id == MempoolId_t{0, 0}) return check(core_.release_cached(used, &released));
  for (uint64_t key : pools.left_by(id)) check(core_.release_forgotten(used, key, &released)); /* while it is there, all stays */
}

void Device::set_fraction(double fraction) {
  fraction_ = fraction;
  if (cuplug_allocator *used = if_used()) {
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
  if (find_block(address) == nullptr) return false;
  Map map(core_, if_used());
  const cuplug_segment *segment = map.holding(number_of_address(address));
  if (segment == nullptr) return false;
  *start = pointer_to(segment->address);
  *nbytes = segment->nbytes;
  *is_expandable = segment->is_expandable != 0;
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
  cuplug_allocator *used = if_used();
  if (used == nullptr) return stats;
  cuplug_statistics ours{};
  int answer = core_.get_statistics(used, &ours);
  if (answer != CUPLUG_OK) fail(answer, 0);
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
  if (cuplug_allocator *used = if_used()) core_.reset_peaks(used);
}

void Device::reset_accumulated() {
  other_shortages_.store(0);
  if (cuplug_allocator *used = if_used()) core_.reset_accumulated(used);
}

std::vector<SegmentInfo> Device::segments(const MempoolId_t &id) {
  std::vector<SegmentInfo> infos;
  cuplug_allocator *used = if_used();
  if (used == nullptr) return infos;
  Map map(core_, used);
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
  return infos;
}

/* --- private pools */

void Device::release_pool(const MempoolId_t &id) {
  for (uint64_t key : pools.release(id))
    if (cuplug_allocator *used = if_used()) {
      int answer = core_.forget_stream(used, key);
      if (answer != CUPLUG_OK && answer != CUPLUG_CLOSED) fail(answer, 0);
    }
}

/* The blocks of the pool of this number that are in the program's hands, by address. */
std::vector<cuplug_block *> Device::live_blocks(uint64_t pool) {
  std::vector<cuplug_block *> blocks;
  cuplug_allocator *used = if_used();
  size_t count = 0;
  if (used == nullptr || pool == 0) return blocks;
  do {
    blocks.resize(count + 1024);
    int answer = core_.get_live_blocks(used, blocks.data(), blocks.size(), &count);
    if (answer != CUPLUG_OK) fail(answer, 0);
  } while (count > blocks.size());
  blocks.resize(count);
  blocks.erase(std::remove_if(blocks.begin(), blocks.end(),
                              [&](cuplug_block *block) { return number_of(core_.block_stream(block)) != pool; }),
               blocks.end());
  return blocks;
}

bool Device::holds_exactly(const MempoolId_t &id, const std::unordered_set<void *> &expected) {
  std::vector<cuplug_block *> blocks = live_blocks(pools.number(id));
  if (blocks.size() != expected.size()) return false;
  for (cuplug_block *block : blocks)
    if (expected.count(pointer_to(core_.block_address(block))) == 0) return false;
  return true;
}

std::shared_ptr<AllocatorState> Device::checkpoint(const MempoolId_t &id) {
  auto state = std::make_shared<Checkpoint>();
  state->id = id;
  for (cuplug_block *block : live_blocks(pools.number(id)))
    state->blocks.push_back({core_.block_address(block), core_.block_nbytes(block), core_.block_requested(block),
                             core_.block_stream(block)});
  return state;
}

CheckpointDelta Device::restore(const std::shared_ptr<AllocatorState> &state, void (*deleter)(void *)) {
  auto wanted = std::dynamic_pointer_cast<Checkpoint>(state);
  TORCH_CHECK(wanted != nullptr, "cuplug: this is no state that getCheckpointState has given");
  uint64_t pool = pools.number(wanted->id);
  CheckpointDelta delta;
  for (cuplug_block *block : live_blocks(pool)) {
    delta.ptrs_freed.push_back(pointer_to(core_.block_address(block)));
    give_back(block);
  }
  for (const Checkpoint::Entry &entry : wanted->blocks) {
    cuplug_block *block = nullptr;
    TORCH_CHECK(number_of(entry.stream) == pool, "cuplug: the private pool of this state has ended");
    int answer = core_.allocate_at(if_used(), entry.address, entry.nbytes, entry.requested, entry.stream, ASKED_BY_TORCH, &block);
    TORCH_CHECK(answer == CUPLUG_OK, "cuplug: ", entry.nbytes, " bytes at ", pointer_to(entry.address),
                " of a private pool's earlier state are not free there");
    void *address = pointer_to(core_.block_address(block));
    delta.dataptrs_allocd.emplace_back(address, address, deleter, c10::Device(c10::DeviceType::CUDA, index_));
  }
  return delta;
}

}  // namespace cuplug_torch

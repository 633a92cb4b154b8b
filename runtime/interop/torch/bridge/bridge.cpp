/* PyTorch's CUDA allocator over cuplug's: everything that c10::cuda::CUDACachingAllocator::CUDAAllocator asks for. */
#include <cstdio>
#include <cstdlib>

#include "device.h"
#include "ending.h"

namespace cuplug_torch {

namespace {

constexpr size_t ONE_EXABYTE = size_t(1) << 60;

void delete_address(void *address);
void delete_uncached(void *address) { C10_CUDA_CHECK(cudaFree(address)); }

bool is_uncached_by_environment() {
  static const bool is = std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr;
  return is;
}

class Bridge final : public VersionedAllocator {
 public:
  Bridge(const char *library, FindHandle find, bool has_pages) : core_(library), find_(find), has_pages_(has_pages) {}

  /* --- allocation and free */

  DataPtr allocate(size_t nbytes) override {
    TORCH_CHECK_WITH(OutOfMemoryError, nbytes < ONE_EXABYTE,
                     "CUDA out of memory. Tried to allocate more than 1EB memory.");
    Ending::Call call(ending_);
    DeviceIndex index = current_device();
    void *address = nullptr;
    if (is_cached()) {
      if (nbytes != 0) address = at(index).allocate(nbytes, c10::cuda::getCurrentCUDAStream(index));
    } else {
      address = allocate_uncached(nbytes);
    }
    return {address, address, raw_deleter(), c10::Device(c10::DeviceType::CUDA, index)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return is_cached() ? &delete_address : &delete_uncached; }
  void *raw_alloc(size_t nbytes) override {
    return raw_alloc_with_stream(nbytes, c10::cuda::getCurrentCUDAStream(current_device()));
  }
  void *raw_alloc_with_stream(size_t nbytes, cudaStream_t stream) override {
    if (nbytes == 0) return nullptr;
    Ending::Call call(ending_);
    return is_cached() ? at(current_device()).allocate(nbytes, stream) : allocate_uncached(nbytes);
  }
  void raw_delete(void *address) override { is_cached() ? free(address) : delete_uncached(address); }

  /* Free what stands at `address`, on whatever device. */
  void free(void *address) {
    static thread_local size_t latest = 0; /* the device of this thread's last free */
    if (address == nullptr) return;
    size_t count = devices_.size();
    if (latest < count && devices_[latest]->free(address)) return;
    for (size_t index = 0; index < count; ++index) {
      if (!devices_[index]->free(address)) continue;
      latest = index;
      return;
    }
    for (auto &device : devices_)
      if (device->is_closed()) return;
    TORCH_CHECK(ending_.has_begun(), "invalid device pointer: ", address);
  }
  void recordStream(const DataPtr &pointer, c10::cuda::CUDAStream stream) override {
    if (pointer.get() == nullptr || pointer.get_deleter() != &delete_address) return; /* another process's, say */
    for (auto &device : devices_)
      if (device->record_stream(pointer.get(), stream)) return;
  }
  void copy_data(void *to, const void *from, size_t nbytes) const final {
    C10_CUDA_CHECK(cudaMemcpy(to, from, nbytes, cudaMemcpyDeviceToDevice));
  }

  /* --- the whole */

  void init(int device_count) override {
    for (int index = int(devices_.size()); index < device_count; ++index)
      devices_.push_back(std::make_unique<Device>(core_, find_, DeviceIndex(index)));
  }
  bool initialized() override { return !devices_.empty(); }
  std::string name() override { return "cuplug"; }
  void enable(bool value) override { enabled_ = value; }
  bool isEnabled() const override { return enabled_; }
  void emptyCache(MempoolId_t pool = {0, 0}) override {
    for (auto &device : devices_) device->release_cached(pool);
  }
  double getMemoryFraction(DeviceIndex index) override { return at(index).fraction(); }
  void setMemoryFraction(double fraction, DeviceIndex index) override {
    TORCH_CHECK(0 <= fraction && fraction <= 1, "the fraction is ", fraction, "; it must be from 0 to 1");
    at(index).set_fraction(fraction);
  }
  void cacheInfo(DeviceIndex index, size_t *largest) override {
    if (*largest == 0) { /* then what the device has free counts too */
      size_t total = 0;
      C10_CUDA_CHECK(cudaMemGetInfo(largest, &total));
    }
    *largest = std::max(*largest, at(index).largest_free());
  }
  std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex index) override {
    return at(index).expandable_sizes();
  }
  void *getBaseAllocation(void *address, size_t *nbytes) override {
    void *start = nullptr;
    size_t size = 0;
    bool is_expandable = false;
    find_segment(address, &start, &size, &is_expandable);
    if (nbytes != nullptr) *nbytes = size;
    return start;
  }

  /* --- figures and history */

  DeviceStats getDeviceStats(DeviceIndex index) override { return at(index).statistics(); }
  void resetAccumulatedStats(DeviceIndex index) override { at(index).reset_accumulated(); }
  void resetPeakStats(DeviceIndex index) override { at(index).reset_peaks(); }

  SnapshotInfo snapshot(MempoolId_t pool = {0, 0}, bool include_traces = true) override {
    auto to_nanoseconds = clock_.makeConverter();
    auto to_microseconds = [&](c10::approx_time_t time) { return to_nanoseconds(time) / 1000; };
    SnapshotInfo info;
    for (auto &device : devices_) {
      if (include_traces) info.device_traces.push_back(device->history.entries(to_microseconds));
      uint64_t active = 0;
      for (SegmentInfo &segment : device->segments(pool)) {
        active += segment.active_size;
        info.segments.push_back(std::move(segment));
      }
      device->history.note_snapshot(active); /* behind the entries, as natively: a snapshot is not in itself */
    }
    {
      std::lock_guard<std::mutex> guard(annotations_mutex_);
      info.external_annotations.assign(annotations_.begin(), annotations_.end());
    }
    for (AnnotationEntry &entry : info.external_annotations) entry.time_.t_ = to_microseconds(entry.time_.approx_t_);
    info.config_metadata = configuration();
    info.config_metadata.expandable_segments =
        (initialized() ? at(current_device()).is_expandable() : has_pages_) && segments_expand();
    return info;
  }
  bool isHistoryEnabled() override { return at(current_device()).history.enabled(); }
  void recordHistory(bool enabled, CreateContextFn recorder, size_t most, RecordContext when, bool clear,
                     const std::vector<std::string> &skipped) override {
    for (auto &device : devices_) {
      device->history.record(enabled, recorder, most, when, clear, skipped);
      device->settle_listening();
    }
    std::lock_guard<std::mutex> guard(annotations_mutex_);
    records_ = enabled;
    most_annotations_ = most > 0 ? most : 1;
    if (!enabled || clear) annotations_.clear();
  }
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &pairs) override {
    std::lock_guard<std::mutex> guard(annotations_mutex_);
    if (!records_) return;
    AnnotationEntry entry(current_device(), c10::getApproximateTime());
    for (const auto &[name, value] : pairs) entry.recordUserMetadata(name, value);
    if (annotations_.size() == most_annotations_) annotations_.pop_front();
    annotations_.push_back(std::move(entry));
  }
  void pushCompileContext(std::string &context) override {
    if (records_) at(current_device()).history.push_compile_context(context);
  }
  void popCompileContext() override {
    if (records_) at(current_device()).history.pop_compile_context();
  }
  void setUserMetadata(const std::string &metadata) override {
    History::user_metadata() = metadata;
  }
  std::string getUserMetadata() override { return History::user_metadata(); }
  void annotate(void *address, const std::string &metadata) override {
    for (auto &device : devices_)
      if (device->annotate(address, metadata)) return;
  }
  void attachOutOfMemoryObserver(OutOfMemoryObserver observer) override {
    for (auto &device : devices_) device->observe_shortages(observer);
  }
  void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override {
    for (auto &device : devices_) {
      device->history.track(tracker);
      device->settle_listening();
    }
  }

  /* --- private pools */

  void createOrIncrefPool(DeviceIndex index, MempoolId_t id, std::shared_ptr<CUDAAllocator> allocator) override {
    at(index).create_pool(id, std::move(allocator));
  }
  void setUseOnOOM(DeviceIndex index, MempoolId_t id, bool on) override { at(index).pools.use_when_short(id, on); }
  /* Of what a pool brings along, symmetric memory say, a segment may have a meaning; how cuplug's own are cut has none. */
  void setNoSplit(DeviceIndex index, MempoolId_t id) override { at(index).keep_segments_whole(id); }
  void beginAllocateToPool(DeviceIndex index, MempoolId_t id, std::function<bool(cudaStream_t)> filter) override {
    at(index).pools.begin(core_, id, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex index, MempoolId_t id) override { at(index).pools.end(core_, id); }
  void releasePool(DeviceIndex index, MempoolId_t id) override { at(index).release_pool(id); }
  int getPoolUseCount(DeviceIndex index, MempoolId_t id) override { return at(index).pools.uses(id); }
  bool checkPoolLiveAllocations(DeviceIndex index, MempoolId_t id,
                                const std::unordered_set<void *> &expected) override {
    return at(index).holds_exactly(id, expected);
  }
  std::shared_ptr<AllocatorState> getCheckpointState(DeviceIndex index, MempoolId_t id) override {
    return at(index).checkpoint(id);
  }
  CheckpointDelta setCheckpointPoolState(DeviceIndex index, std::shared_ptr<AllocatorState> state) override {
    return at(index).restore(state, &delete_address);
  }

  /* --- other devices and processes */

  void enablePeerAccess(DeviceIndex device, DeviceIndex peer) override {
    c10::cuda::CUDAGuard guard(device);
    cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled)
      (void)cudaGetLastError();
    else
      C10_CUDA_CHECK(error);
    TORCH_CHECK(core_.cuda_admit_peer(peer, device) == CUPLUG_OK, "cuplug: device ", int(device),
                " cannot be given access to the pages that are mapped on device ", int(peer), ": CUDA error ",
                core_.cuda_last_result());
  }
  cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device, size_t nbytes,
                          cudaStream_t stream, bool peers) override {
    if (peers || to_device == from_device) return cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDeviceToDevice, stream);
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, nbytes, stream);
  }
  /* Handles are such as PyTorch's own processes send and take. */
  ShareableHandle shareIpcHandle(void *address) override {
    std::vector<cuplug_shared_page> pages;
    auto has = [&](auto &device) { return device->share(address, pages); };
    TORCH_CHECK(std::any_of(devices_.begin(), devices_.end(), has), "invalid device pointer: ", address);
    if (!pages.empty()) {
      ptrdiff_t inside = ptrdiff_t(reinterpret_cast<uint64_t>(address) - pages[0].address);
      SharedPages shared(std::move(pages));
      shared.offer();
      return {inside, shared.handle()};
    }
    void *start = nullptr;
    size_t nbytes = 0;
    bool is_expandable = false;
    find_segment(address, &start, &nbytes, &is_expandable);
    cudaIpcMemHandle_t handle;
    C10_CUDA_CHECK(cudaIpcGetMemHandle(&handle, start));
    return {static_cast<char *>(address) - static_cast<char *>(start),
            std::string(reinterpret_cast<const char *>(&handle), sizeof handle)};
  }
  std::shared_ptr<void> getIpcDevPtr(std::string text) override {
    std::lock_guard<std::mutex> guard(shared_mutex_);
    auto known = shared_.find(text);
    if (known != shared_.end())
      if (std::shared_ptr<void> opened = known->second.lock()) return opened;
    DeviceIndex index = current_device();
    std::shared_ptr<void> kept;
    if (SharedPages::speaks_of_pages(text)) {
      SharedPages pages(text);
      kept = std::shared_ptr<void>(pages.open(core_, index), [this, index, text, nbytes = pages.nbytes()](void *memory) {
        c10::cuda::CUDAGuard on(index);
        C10_CUDA_CHECK(cudaDeviceSynchronize()); /* no work may touch what is unmapped */
        std::lock_guard<std::mutex> inner(shared_mutex_);
        core_.cuda_close_pages(reinterpret_cast<uint64_t>(memory), nbytes);
        forget_shared(text);
      });
    } else {
      cudaIpcMemHandle_t handle;
      TORCH_CHECK(text.size() == sizeof handle || (text.size() == sizeof handle + 2 && text[1] == SharedPages::PLAIN),
                  "cuplug: this tensor's memory is shared in a way that is not known here");
      std::memcpy(&handle, text.data() + text.size() - sizeof handle, sizeof handle);
      void *opened = nullptr;
      C10_CUDA_CHECK(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
      kept = std::shared_ptr<void>(opened, [this, index, text](void *memory) {
        std::lock_guard<std::mutex> inner(shared_mutex_);
        c10::cuda::CUDAGuard on(index);
        C10_CUDA_CHECK(cudaIpcCloseMemHandle(memory));
        forget_shared(text);
      });
    }
    shared_[text] = kept;
    return kept;
  }

  /* The interpreter exits: from now on nothing complains, and daemon threads that ask for memory stay here. */
  void end(const std::vector<int> &daemons) { ending_.begin(daemons); }

 private:
  static DeviceIndex current_device() {
    DeviceIndex index = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&index));
    return index;
  }
  static void *allocate_uncached(size_t nbytes) {
    void *address = nullptr;
    if (nbytes != 0) C10_CUDA_CHECK(cudaMalloc(&address, nbytes));
    return address;
  }
  bool is_cached() const { return enabled_ && !is_uncached_by_environment(); }
  Device &at(DeviceIndex index) {
    TORCH_CHECK(0 <= index && size_t(index) < devices_.size(), "Invalid device argument ", int(index),
                ": did you call init?");
    return *devices_[size_t(index)];
  }
  void find_segment(void *address, void **start, size_t *nbytes, bool *is_expandable) {
    for (auto &device : devices_)
      if (device->find_segment(address, start, nbytes, is_expandable)) return;
    TORCH_CHECK(false, "invalid device pointer: ", address);
  }

  void forget_shared(const std::string &text) {
    auto found = shared_.find(text);
    if (found != shared_.end() && found->second.expired()) shared_.erase(found);
  }

  const Core core_;
  const FindHandle find_;
  const bool has_pages_; /* what the allocators will be, said before there is one */
  std::vector<std::unique_ptr<Device>> devices_; /* made before the first allocation, and never changed then */
  std::atomic<bool> enabled_{true}, records_{false};
  Ending ending_;
  c10::ApproximateClockToUnixTimeConverter clock_;
  std::mutex annotations_mutex_;
  size_t most_annotations_ = 1;
  std::deque<AnnotationEntry> annotations_;
  std::mutex shared_mutex_;
  std::unordered_map<std::string, std::weak_ptr<void>> shared_; /* other processes' memory, by its handle */
};

/* It is never destroyed: static objects of PyTorch's may free memory after everything else. */
std::shared_ptr<Bridge> *installed = nullptr;

void delete_address(void *address) { (*installed)->free(address); }

void tell(char *message, size_t room, const char *text) { std::snprintf(message, room, "%s", text); }

}  // namespace

}  // namespace cuplug_torch

extern "C" {

/* Put cuplug under PyTorch. `library` holds the core; `find` answers a device's allocator, which `has_pages` or not. 0, or
 * not, and then a sentence stands in `message`. */
__attribute__((visibility("default"))) int cuplug_torch_install(const char *library, cuplug_torch::FindHandle find,
                                                                int has_pages, char *message, size_t room) {
  using namespace cuplug_torch;
  try {
    auto bridge = std::make_shared<Bridge>(library, find, has_pages != 0);
    if (has_pages) let_segments_expand();
    put_in_place(bridge);
    installed = new std::shared_ptr<Bridge>(std::move(bridge));
    return 0;
  } catch (const c10::Error &error) {
    tell(message, room, error.what_without_backtrace());
  } catch (const std::exception &error) {
    tell(message, room, error.what());
  }
  return 1;
}

/* The interpreter exits: frees of what it no longer knows are passed over, and its daemon threads, as the system numbers
 * them, stay here when they ask for memory. To be called without the interpreter's lock. */
__attribute__((visibility("default"))) void cuplug_torch_end(const int *daemons, size_t count) {
  using namespace cuplug_torch;
  if (installed != nullptr) (*installed)->end(std::vector<int>(daemons, daemons + count));
}
}

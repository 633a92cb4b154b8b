/* What differs between the versions of PyTorch that the bridge compiles for. Everything else is the same in them. */
#pragma once

#include <torch/version.h>

#define CUPLUG_TORCH_VERSION (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

#if CUPLUG_TORCH_VERSION < 208
#error "cuplug's bridge needs PyTorch 2.8 or later"
#endif

/* Whether segments expand is said by a setting that these versions show only to who has been built so. */
#if CUPLUG_TORCH_VERSION < 210 && !defined(PYTORCH_C10_DRIVER_API_SUPPORTED)
#define PYTORCH_C10_DRIVER_API_SUPPORTED
#endif

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

namespace cuplug_torch {

#if CUPLUG_TORCH_VERSION >= 211
namespace records = c10::CachingDeviceAllocator; /* where the types of histories and snapshots live */
#else
namespace records = c10::cuda::CUDACachingAllocator;
#endif

using c10::DataPtr;
using c10::DeviceIndex;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::cuda::CUDACachingAllocator::AllocatorConfigInfo;
using c10::cuda::CUDACachingAllocator::AllocatorState;
using c10::cuda::CUDACachingAllocator::CheckpointDelta;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;
using c10::cuda::CUDACachingAllocator::ShareableHandle;
using c10::cuda::CUDACachingAllocator::SnapshotInfo;
using records::AllocatorTraceTracker;
using records::AnnotationEntry;
using records::BlockInfo;
using records::CreateContextFn;
using records::RecordContext;
using records::SegmentInfo;
using records::TraceEntry;
using Context = std::shared_ptr<c10::GatheredContext>; /* a call stack, in PyTorch's keeping */

#if CUPLUG_TORCH_VERSION >= 209
using c10::MempoolId_t;
#else
using c10::cuda::MempoolId_t;
#endif

#if CUPLUG_TORCH_VERSION >= 210
using c10::cuda::CUDACachingAllocator::StreamSegmentSize;
#else
struct StreamSegmentSize { /* as from 2.10 on; nobody asks for it before */
  StreamSegmentSize(cudaStream_t, bool, size_t) {}
};
#endif

/* Of private pools within one another, whether the inner one gets what is allocated. */
constexpr bool INNER_POOL_FIRST = CUPLUG_TORCH_VERSION >= 210;

/* A stream as it stands in records. */
inline decltype(SegmentInfo::stream) recorded_stream(uint64_t stream) {
  return reinterpret_cast<decltype(SegmentInfo::stream)>(stream);
}

/* What else an entry of a history tells, in the versions that keep it. */
inline TraceEntry make_entry(TraceEntry::Action action, DeviceIndex device, uint64_t address, uint64_t nbytes,
                             uint64_t stream, const MempoolId_t &pool, Context context,
                             const std::string &compile_context, [[maybe_unused]] const std::string &metadata) {
  return TraceEntry(action, device, address, nbytes, recorded_stream(stream), pool, c10::getApproximateTime(),
                    std::move(context), compile_context
#if CUPLUG_TORCH_VERSION >= 210
                    ,
                    metadata
#endif
  );
}

/* By which number NCCL puts the segments of a pool in order, so that all ranks register them alike; later versions have it. */
template <class Info>
auto set_order(Info &info, int32_t order, int) -> decltype(void(info.registration_counter)) {
  info.registration_counter = order;
}
template <class Info>
void set_order(Info &, int32_t, long) {}

inline const char *name_of(TraceEntry::Action action) {
  static const char *const names[] = {"alloc",       "free_requested", "free_completed", "segment_alloc", "segment_free",
                                      "segment_map", "segment_unmap",  "snapshot",       "oom",           "annotate"};
  return names[action];
}
#if CUPLUG_TORCH_VERSION >= 214
constexpr TraceEntry::Action ANNOTATE = TraceEntry::ANNOTATE;
#else
constexpr auto ANNOTATE = TraceEntry::Action(9); /* nobody asks for it */
#endif

/* PyTorch's interface, without what only some versions of it have. */
class VersionedAllocator : public CUDAAllocator {
 public:
#if CUPLUG_TORCH_VERSION >= 212
  /* Told of requests that PyTorch's own allocator refuses before it asks the driver. Nothing is refused so here. */
  void attachOomRejectionObserver(c10::cuda::CUDACachingAllocator::OomRejectionObserver) override {}
#endif

#if CUPLUG_TORCH_VERSION >= 214
  bool supportsUserMetadata() override { return true; }
  void annotateMemory(const void *address, const std::string &metadata) override {
    annotate(const_cast<void *>(address), metadata);
  }
#endif
  virtual void annotate(void *address, const std::string &metadata) = 0;

/* In the newer form, and in the form of older versions by way of it. */
#if CUPLUG_TORCH_VERSION < 211
  virtual SnapshotInfo snapshot(MempoolId_t pool, bool include_traces) = 0;
  virtual void recordHistory(bool enabled, CreateContextFn recorder, size_t most, RecordContext when, bool clear,
                             const std::vector<std::string> &skipped) = 0;
  virtual void createOrIncrefPool(DeviceIndex index, MempoolId_t id, std::shared_ptr<CUDAAllocator> allocator) = 0;
  virtual void setUseOnOOM(DeviceIndex index, MempoolId_t id, bool on) = 0;

  SnapshotInfo snapshot(MempoolId_t pool) override { return snapshot(pool, true); }
  void recordHistory(bool enabled, CreateContextFn recorder, size_t most, RecordContext when, bool clear) override {
    recordHistory(enabled, recorder, most, when, clear, {});
  }
  void createOrIncrefPool(DeviceIndex index, MempoolId_t id, CUDAAllocator *allocator) override {
    /* whoever makes the pool keeps its allocator alive */
    createOrIncrefPool(index, id, std::shared_ptr<CUDAAllocator>(std::shared_ptr<void>(), allocator));
  }
  void setUseOnOOM(DeviceIndex index, MempoolId_t id) override { setUseOnOOM(index, id, true); }
#endif
#if CUPLUG_TORCH_VERSION < 210
  virtual std::vector<StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex index) = 0;
  virtual void setNoSplit(DeviceIndex index, MempoolId_t id) = 0;
  virtual void setUserMetadata(const std::string &metadata) = 0;
  virtual std::string getUserMetadata() = 0;
#endif
};

/* Make `allocator` PyTorch's from now on. Throws c10::Error where the one before is in use already. */
inline void put_in_place(const std::shared_ptr<CUDAAllocator> &allocator) {
  torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(allocator);
  c10::SetAllocator(c10::DeviceType::CUDA, allocator.get(), 0);
}

/* What PYTORCH_CUDA_ALLOC_CONF allows this process of each device. */
inline double configured_fraction() {
#if CUPLUG_TORCH_VERSION >= 210
  return c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig::per_process_memory_fraction();
#else
  return 1.0;
#endif
}

#if CUPLUG_TORCH_VERSION >= 210
using Settings = c10::CachingAllocator::AcceleratorAllocatorConfig; /* of all kinds of devices */
#else
using Settings = c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig;
#endif

/* PyTorch's setting `expandable_segments`, which a program may change at any time. */
inline bool segments_expand() {
#if CUPLUG_TORCH_VERSION >= 210
  return Settings::use_expandable_segments();
#else
  return Settings::expandable_segments();
#endif
}
/* Have that setting be on, beside what else is set. */
inline void let_segments_expand() {
  std::string settings = Settings::last_allocator_settings();
  c10::cuda::CUDACachingAllocator::setAllocatorSettings(settings + (settings.empty() ? "" : ",") +
                                                        "expandable_segments:True");
}

/* What PyTorch was told of its own allocator, but for its segments: whether they expand is this one's to say. */
inline AllocatorConfigInfo configuration() {
  using c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig;
  AllocatorConfigInfo info{};
  info.garbage_collection_threshold = Settings::garbage_collection_threshold();
  info.max_split_size = Settings::max_split_size();
  info.pinned_num_register_threads = CUDAAllocatorConfig::pinned_num_register_threads();
  info.release_lock_on_malloc = CUDAAllocatorConfig::release_lock_on_cudamalloc();
  info.pinned_use_host_register = CUDAAllocatorConfig::pinned_use_cuda_host_register();
#if CUPLUG_TORCH_VERSION >= 209
  info.graph_capture_record_stream_reuse = CUDAAllocatorConfig::graph_capture_record_stream_reuse();
#endif
  info.last_allocator_settings = Settings::last_allocator_settings();
  info.roundup_power2_divisions = Settings::roundup_power2_divisions();
  return info;
}

}  // namespace cuplug_torch

/* What differs between the versions of PyTorch that the bridge compiles for. Everything else is the same in them. */
#ifndef CUPLUG_TORCH_VERSIONS_H
#define CUPLUG_TORCH_VERSIONS_H

#include <torch/version.h>

#define CUPLUG_TORCH_VERSION (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

#if CUPLUG_TORCH_VERSION < 211
#error "cuplug's bridge needs PyTorch 2.11 or later"
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

using c10::DataPtr;
using c10::DeviceIndex;
using c10::MempoolId_t;
using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingDeviceAllocator::AllocatorTraceTracker;
using c10::CachingDeviceAllocator::AnnotationEntry;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::CreateContextFn;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::SegmentInfo;
using c10::CachingDeviceAllocator::TraceEntry;
using c10::cuda::CUDACachingAllocator::AllocatorConfigInfo;
using c10::cuda::CUDACachingAllocator::AllocatorState;
using c10::cuda::CUDACachingAllocator::CheckpointDelta;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using c10::cuda::CUDACachingAllocator::OutOfMemoryObserver;
using c10::cuda::CUDACachingAllocator::ShareableHandle;
using c10::cuda::CUDACachingAllocator::SnapshotInfo;
using c10::cuda::CUDACachingAllocator::StreamSegmentSize;
using Context = std::shared_ptr<c10::GatheredContext>; /* a call stack, in PyTorch's keeping */

/* PyTorch's interface, without what only some versions of it have. */
class VersionedAllocator : public CUDAAllocator {
#if CUPLUG_TORCH_VERSION >= 212
 public:
  /* Told of requests that PyTorch's own allocator refuses before it asks the driver. Nothing is refused so here. */
  void attachOomRejectionObserver(c10::cuda::CUDACachingAllocator::OomRejectionObserver) override {}
#endif
};

/* Make `allocator` PyTorch's from now on. Throws c10::Error where the one before is in use already. */
inline void put_in_place(const std::shared_ptr<CUDAAllocator> &allocator) {
  torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(allocator);
  c10::SetAllocator(c10::DeviceType::CUDA, allocator.get(), 0);
}

inline AllocatorConfigInfo configuration() {
  using c10::CachingAllocator::AcceleratorAllocatorConfig;
  using c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig;
  AllocatorConfigInfo info{};
  info.garbage_collection_threshold = AcceleratorAllocatorConfig::garbage_collection_threshold();
  info.max_split_size = AcceleratorAllocatorConfig::max_split_size();
  info.pinned_num_register_threads = CUDAAllocatorConfig::pinned_num_register_threads();
  info.expandable_segments = CUDAAllocatorConfig::expandable_segments();
  info.release_lock_on_malloc = CUDAAllocatorConfig::release_lock_on_cudamalloc();
  info.pinned_use_host_register = CUDAAllocatorConfig::pinned_use_cuda_host_register();
  info.graph_capture_record_stream_reuse = CUDAAllocatorConfig::graph_capture_record_stream_reuse();
  info.last_allocator_settings = AcceleratorAllocatorConfig::last_allocator_settings();
  info.roundup_power2_divisions = AcceleratorAllocatorConfig::roundup_power2_divisions();
  return info;
}

}  // namespace cuplug_torch
#endif

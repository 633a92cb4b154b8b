/* Memory of private pools that bring an allocator: torch.cuda.MemPool(allocator).
 *
 * Each such pool has an allocator of the core's for itself, "caching" as PyTorch does it, whose upstream is the functions
 * that the program has brought. They are called as PyTorch calls them: for whole segments, on the device, with its current
 * stream. They may take the interpreter's lock: no thread waits for the core's mutex while it holds that. */
#pragma once

#include <cxxabi.h>

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "core.h"
#include "ending.h"
#include "pools.h"
#include "versions.h"

namespace cuplug_torch {

class OwnMemory {
 public:
  OwnMemory(const Core &core, DeviceIndex device, std::shared_ptr<CUDAAllocator> giver) : core_(core) {
    auto *source = source_ = new Source{device, std::move(giver)};
    cuplug_upstream upstream{};
    upstream.context = source;
    upstream.reserve = reserve;
    upstream.release = release;
    upstream.memory_info = memory_info;
    upstream.fence = make_fence;
    upstream.fence_done = fence_done;
    upstream.fence_wait = fence_wait;
    upstream.fence_drop = fence_drop;
    upstream.granularity = 512;
    upstream.close = close;
    const cuplug_option options[] = {{"preset", "torch"}};
    TORCH_CHECK(core_.allocator_create("caching", options, 1, &upstream, &allocator_) == CUPLUG_OK,
                "cuplug: no memory for a private pool with an allocator of its own");
    core_.allocator_set_thread_hooks(allocator_, hooks());
  }
  OwnMemory(const OwnMemory &) = delete;
  OwnMemory &operator=(const OwnMemory &) = delete;
  /* Nothing of it is in the program's hands any more. */
  ~OwnMemory() {
    core_.allocator_close(allocator_);
    core_.allocator_destroy(allocator_);
  }

  cuplug_allocator *allocator() const { return allocator_; }
  /* Which of the segments it was, of all that this process has asked functions of programs for. */
  int32_t order_of(uint64_t segment) const {
    std::lock_guard<std::mutex> guard(source_->mutex);
    auto found = source_->order.find(segment);
    return found == source_->order.end() ? 0 : found->second;
  }

  /* What the program's functions have thrown in this thread's latest call, if that has failed by it. */
  static std::exception_ptr take_thrown() { return std::exchange(thrown(), nullptr); }

  /* For the core's allocators that the bridge makes: they wait without the interpreter's lock, where there is one. */
  static const cuplug_thread_hooks *hooks() {
    static const cuplug_thread_hooks both = {InterpreterLock::let_go, InterpreterLock::take_again};
    return &both;
  }

 private:
  struct Source {
    DeviceIndex device;
    std::shared_ptr<CUDAAllocator> giver;
    std::mutex mutex; /* of the following */
    std::map<uint64_t, int32_t> order;
  };
  struct Mark { /* of the work queued on a stream */
    cudaEvent_t event;   /* null where it could not be made, and before it is recorded */
    cudaStream_t stream; /* of one that is recorded once the stream captures no more */
    bool deferred;
  };

  static Source &source_of(void *context) { return *static_cast<Source *>(context); }
  static std::exception_ptr &thrown() {
    static thread_local std::exception_ptr kept;
    return kept;
  }
  template <class Call>
  static int guarded(void *context, Call call) {
    try {
      c10::cuda::CUDAGuard guard(source_of(context).device);
      /* While any stream captures, a giver's cudaMalloc and our own marks would end the capture otherwise. */
      c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
      return call();
    } catch (const c10::OutOfMemoryError &) {
      return CUPLUG_OUT_OF_MEMORY;
    } catch (const abi::__forced_unwind &) { /* the interpreter exits, and has ended this thread inside a giver's Python */
      InterpreterLock::wait_for_the_end();
    } catch (...) {
      thrown() = std::current_exception();
      return CUPLUG_FAILED;
    }
  }

  static int reserve(void *context, uint64_t nbytes, uint64_t *address) {
    return guarded(context, [&] {
      static std::atomic<int32_t> next{0};
      Source &source = source_of(context);
      *address = reinterpret_cast<uint64_t>(source.giver->raw_alloc(size_t(nbytes)));
      if (*address == 0) return CUPLUG_OUT_OF_MEMORY;
      std::lock_guard<std::mutex> guard(source.mutex);
      source.order[*address] = next.fetch_add(1);
      return CUPLUG_OK;
    });
  }
  static int release(void *context, uint64_t address) {
    return guarded(context, [&] {
      Source &source = source_of(context);
      {
        std::lock_guard<std::mutex> guard(source.mutex);
        source.order.erase(address);
      }
      source.giver->raw_delete(reinterpret_cast<void *>(address));
      return CUPLUG_OK;
    });
  }
  static int memory_info(void *context, uint64_t *free_bytes, uint64_t *total_bytes) {
    return guarded(context, [&] {
      size_t free = 0, total = 0;
      C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
      *free_bytes = free;
      *total_bytes = total;
      return CUPLUG_OK;
    });
  }
  static void close(void *context) { delete &source_of(context); }

  /* --- marks, by CUDA's runtime, in the device's primary context */

  static bool captures_on(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
  }
  static void record(Mark &mark) {
    mark.deferred = captures_on(mark.stream);
    if (mark.deferred) return;
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&mark.event, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventRecord(mark.event, mark.stream));
  }
  static int make_fence(void *context, uint64_t stream, void **made) {
    uint64_t handle = without_pool(stream);
    auto *mark = new (std::nothrow) Mark{nullptr, reinterpret_cast<cudaStream_t>(handle), false};
    *made = mark;
    if (mark == nullptr) return CUPLUG_FAILED;
    return guarded(context, [&] {
      record(*mark);
      return CUPLUG_OK;
    });
  }
  static int fence_done(void *context, void *handle, int *done) {
    Mark &mark = *static_cast<Mark *>(handle);
    *done = 0;
    return guarded(context, [&] {
      if (mark.deferred) {
        record(mark);
        return CUPLUG_OK;
      }
      cudaError_t found = cudaEventQuery(mark.event);
      if (found == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return CUPLUG_OK;
      }
      C10_CUDA_CHECK(found);
      *done = 1;
      return CUPLUG_OK;
    });
  }
  static int fence_wait(void *context, void *handle) {
    Mark &mark = *static_cast<Mark *>(handle);
    return guarded(context, [&] {
      if (mark.deferred) record(mark);
      if (mark.event == nullptr) return CUPLUG_FAILED; /* it captures on, or could not be marked */
      C10_CUDA_CHECK(cudaEventSynchronize(mark.event));
      return CUPLUG_OK;
    });
  }
  static void fence_drop(void *, void *handle) {
    auto *mark = static_cast<Mark *>(handle);
    if (mark->event != nullptr) (void)cudaEventDestroy(mark->event); /* also while it is pending */
    delete mark;
  }

  const Core &core_;
  Source *source_; /* the allocator's, as long as that is there */
  cuplug_allocator *allocator_ = nullptr;
};

}  // namespace cuplug_torch

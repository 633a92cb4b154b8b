/* A CUDA device's memory by the driver's own functions, as runtime/drivers/cuda calls them. */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "allocators/native/block.h"
#include "allocators/native/cuplug_allocator.h"
#include "allocators/native/last_error.h"
#include "runtime/drivers/cuda/native/driver_api.h"
#include "runtime/drivers/cuda/native/host_room.h"

#define EXPORT __attribute__((visibility("default")))

namespace {

using namespace cuplug::cuda;

/* One device. `fence` and the like are called under the allocator's mutex, which guards the events, too. */
struct Cuda {
  const Api &driver;
  CUdevice device;
  CUcontext context; /* the device's primary context */
  CUmemAllocationProp properties;
  CUmemAllocationProp of_host; /* for pages of the host's memory near the device */
  std::vector<CUevent> spare_events;

  /* Of pages, unlike memory of cuMemAlloc, every device that may touch them has to be named for each mapping. */
  std::mutex mutex; /* of what follows */
  std::vector<CUmemAccessDesc> access; /* the device itself, then its peers */
  std::map<uint64_t, uint64_t> mapped; /* where pages are mapped, and how many bytes */
  std::map<uint64_t, int> files;       /* by which other processes map pages, by these pages' handles */
};

Cuda &cuda_of(void *context) { return *static_cast<Cuda *>(context); }

/* The upstreams of the process, and which devices may touch the pages of which. */
struct Everywhere {
  std::mutex mutex;
  std::vector<Cuda *> upstreams;
  std::vector<std::pair<int, int>> peers; /* whose memory, for whom */
};

Everywhere &everywhere() {
  static Everywhere *const kept = new Everywhere; /* for ever: threads may end after the process's statics */
  return *kept;
}

/* Makes the device's context the calling thread's current one while it lives. Where it is that already, it costs one
 * question to the driver. */
class Current {
 public:
  explicit Current(const Cuda &cuda) : driver_(cuda.driver), relaxed_(cuda.driver) {
    CUcontext before = nullptr;
    code = driver_.cuCtxGetCurrent(&before);
    if (code != SUCCESS || before == cuda.context) return;
    code = driver_.cuCtxPushCurrent(cuda.context);
    pushed_ = code == SUCCESS;
  }
  Current(const Current &) = delete;
  Current &operator=(const Current &) = delete;
  ~Current() {
    CUcontext popped;
    if (pushed_) driver_.cuCtxPopCurrent(&popped);
  }

  CUresult code; /* whether that worked */

 private:
  const Api &driver_;
  Relaxed relaxed_;
  bool pushed_ = false;
};

/* The result of `call`, with the device's context current. */
template <class Call>
CUresult on_device(const Cuda &cuda, Call call) {
  Current current(cuda);
  return current.code != SUCCESS ? current.code : call();
}

/* --- memory */

int reserve(void *context, uint64_t nbytes, uint64_t *address) {
  Cuda &cuda = cuda_of(context);
  CUdeviceptr made = 0;
  CUresult code = on_device(cuda, [&] { return cuda.driver.cuMemAlloc(&made, nbytes); });
  *address = made;
  return answer_of(code);
}

int release(void *context, uint64_t address) {
  Cuda &cuda = cuda_of(context);
  return answer_of_return(on_device(cuda, [&] { return cuda.driver.cuMemFree(address); }));
}

int memory_info(void *context, uint64_t *free_bytes, uint64_t *total_bytes) {
  Cuda &cuda = cuda_of(context);
  size_t free = 0, total = 0;
  CUresult code = on_device(cuda, [&] { return cuda.driver.cuMemGetInfo(&free, &total); });
  *free_bytes = free;
  *total_bytes = total;
  return answer_of(code);
}

/* --- fences: events, which are used again. One without an event stands for the error of `fence`. */

struct CudaFence {
  CUevent event;   /* null once it is seen to have passed, and before it is recorded */
  CUresult error;  /* of a fence that could not be made */
  CUstream stream; /* of one that is still to be recorded, once the stream captures no more */
  bool deferred;
};

/* Keep the event of a fence that has passed for another one. */
void retire(Cuda &cuda, CudaFence &fence) {
  try {
    cuda.spare_events.push_back(fence.event);
  } catch (const std::bad_alloc &) {
    cuda.driver.cuEventDestroy(fence.event);
  }
  fence.event = nullptr;
}

/* Whether an event cannot be recorded there now, since it would become part of what is being captured. */
bool captures_on(const Cuda &cuda, CUstream stream) {
  if (captures.load(std::memory_order_relaxed) == 0) return false;
  int status = 0;
  return cuda.driver.cuStreamIsCapturing(stream, &status) != SUCCESS || status != 0;
}

/* Mark the work queued up to now on the fence's stream, or on all. */
CUresult record(Cuda &cuda, CudaFence &fence, bool everywhere = false) {
  /* While something is captured, marking all streams would break that off. */
  everywhere = everywhere && cuda.driver.cuCtxRecordEvent != nullptr && captures.load(std::memory_order_relaxed) == 0;
  fence.deferred = captures_on(cuda, fence.stream);
  if (fence.deferred) return SUCCESS;
  if (cuda.spare_events.empty()) {
    CUresult code = cuda.driver.cuEventCreate(&fence.event, EVENT_DISABLE_TIMING);
    if (code != SUCCESS) return code;
  } else {
    fence.event = cuda.spare_events.back();
    cuda.spare_events.pop_back();
  }
  CUresult code = everywhere ? cuda.driver.cuCtxRecordEvent(cuda.context, fence.event)
                             : cuda.driver.cuEventRecord(fence.event, fence.stream);
  if (code == SUCCESS) return SUCCESS;
  cuda.driver.cuEventDestroy(fence.event);
  fence.event = nullptr;
  return code;
}

int make_fence(void *context, uint64_t stream, void **made, bool everywhere) {
  Cuda &cuda = cuda_of(context);
  CudaFence *fence = new (std::nothrow) CudaFence{nullptr, SUCCESS, nullptr, false};
  *made = fence;
  if (fence == nullptr) return CUPLUG_FAILED;
  /* Another thread's own stream cannot be named; the legacy stream waits for all. */
  fence->stream = reinterpret_cast<CUstream>(stream & PER_THREAD_KEY ? 0 : cuplug::without_pool(stream));
  fence->error = on_device(cuda, [&] { return record(cuda, *fence, everywhere); });
  if (fence->error == SUCCESS) return CUPLUG_OK;
  answer_of(fence->error);
  return CUPLUG_FAILED;
}

int fence(void *context, uint64_t stream, void **made) { return make_fence(context, stream, made, false); }

int fence_everything(void *context, uint64_t stream, void **made) { return make_fence(context, stream, made, true); }

int fence_done(void *context, void *handle, int *done) {
  Cuda &cuda = cuda_of(context);
  CudaFence &fence = *static_cast<CudaFence *>(handle);
  *done = 0;
  if (fence.deferred) {
    CUresult code = captures_on(cuda, fence.stream) ? SUCCESS : on_device(cuda, [&] { return record(cuda, fence); });
    return answer_of(code);
  }
  if (fence.event != nullptr) {
    Relaxed relaxed(cuda.driver);
    CUresult code = cuda.driver.cuEventQuery(fence.event);
    if (code == ERROR_NOT_READY) return CUPLUG_OK;
    if (code != SUCCESS) return answer_of(code);
    retire(cuda, fence);
  }
  *done = 1;
  return CUPLUG_OK;
}

int fence_wait(void *context, void *handle) {
  Cuda &cuda = cuda_of(context);
  CudaFence &fence = *static_cast<CudaFence *>(handle);
  if (fence.error != SUCCESS) {
    last_code = fence.error;
    return CUPLUG_FAILED;
  }
  if (fence.deferred) {
    CUresult code = on_device(cuda, [&] { return record(cuda, fence); });
    if (code != SUCCESS) return answer_of(code);
    if (fence.deferred) return answer_of(ERROR_CAPTURE_UNSUPPORTED);
  }
  if (fence.event == nullptr) return CUPLUG_OK;
  Relaxed relaxed(cuda.driver);
  CUresult code = cuda.driver.cuEventSynchronize(fence.event);
  if (code == SUCCESS) retire(cuda, fence);
  return answer_of(code);
}

void fence_drop(void *context, void *handle) {
  CudaFence *fence = static_cast<CudaFence *>(handle);
  if (fence->event != nullptr) cuda_of(context).driver.cuEventDestroy(fence->event); /* also while it is pending */
  delete fence;
}

/* Let the process open as many files as it may. Whether that is more than before. */
bool allow_more_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max) return false;
  files.rlim_cur = files.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &files) == 0;
}

/* --- virtual memory. These calls name the device that they act on, and need no current context. */

int reserve_range(void *context, uint64_t nbytes, uint64_t *address) {
  Relaxed relaxed(cuda_of(context).driver);
  CUdeviceptr made = 0;
  CUresult code = cuda_of(context).driver.cuMemAddressReserve(&made, nbytes, 0, 0, 0);
  *address = made;
  return answer_of(code);
}

int free_range(void *context, uint64_t address, uint64_t nbytes) {
  Relaxed relaxed(cuda_of(context).driver);
  return answer_of_return(cuda_of(context).driver.cuMemAddressFree(address, nbytes));
}

int create_page(void *context, uint64_t nbytes, uint64_t *handle) {
  Relaxed relaxed(cuda_of(context).driver);
  CUmemGenericAllocationHandle made = 0;
  CUresult code = cuda_of(context).driver.cuMemCreate(&made, nbytes, &cuda_of(context).properties, 0);
  *handle = made;
  return answer_of(code);
}

int create_host_page(void *context, uint64_t nbytes, uint64_t *handle) {
  if (nbytes > cuplug::lockable_bytes()) {
    last_code = ERROR_OUT_OF_MEMORY;
    return CUPLUG_OUT_OF_MEMORY;
  }
  Relaxed relaxed(cuda_of(context).driver);
  CUmemGenericAllocationHandle made = 0;
  CUresult code = cuda_of(context).driver.cuMemCreate(&made, nbytes, &cuda_of(context).of_host, 0);
  *handle = made;
  return answer_of(code);
}

int release_page(void *context, uint64_t handle) {
  Cuda &cuda = cuda_of(context);
  Relaxed relaxed(cuda.driver);
  std::lock_guard<std::mutex> guard(cuda.mutex);
  auto file = cuda.files.find(handle);
  if (file != cuda.files.end()) { /* as long as it is open, the memory stays */
    ::close(file->second);
    cuda.files.erase(file);
  }
  return answer_of_return(cuda.driver.cuMemRelease(handle));
}

int export_page(void *context, uint64_t handle, int *file) {
  Cuda &cuda = cuda_of(context);
  Relaxed relaxed(cuda.driver);
  std::lock_guard<std::mutex> guard(cuda.mutex);
  try {
    auto [found, is_new] = cuda.files.try_emplace(handle, -1);
    if (is_new) {
      auto make = [&] { return cuda.driver.cuMemExportToShareableHandle(&found->second, handle, AS_FILE, 0); };
      CUresult code = make();
      if (code != SUCCESS && allow_more_files()) code = make();
      if (code != SUCCESS) {
        cuda.files.erase(found);
        last_code = code;
        return CUPLUG_FAILED;
      }
      fcntl(found->second, F_SETFD, FD_CLOEXEC);
    }
    *file = found->second;
  } catch (const std::bad_alloc &) {
    last_code = ERROR_OUT_OF_MEMORY;
    return CUPLUG_FAILED;
  }
  return CUPLUG_OK;
}

int map(void *context, uint64_t address, uint64_t nbytes, uint64_t handle) {
  Cuda &cuda = cuda_of(context);
  Relaxed relaxed(cuda.driver);
  std::lock_guard<std::mutex> guard(cuda.mutex);
  try {
    cuda.mapped[address] = nbytes;
  } catch (const std::bad_alloc &) {
    last_code = ERROR_OUT_OF_MEMORY;
    return CUPLUG_FAILED;
  }
  CUresult code = cuda.driver.cuMemMap(address, nbytes, 0, handle, 0);
  if (code != SUCCESS) cuda.mapped.erase(address);
  return answer_of(code);
}

int set_access(void *context, uint64_t address, uint64_t nbytes) {
  Cuda &cuda = cuda_of(context);
  Relaxed relaxed(cuda.driver);
  std::lock_guard<std::mutex> guard(cuda.mutex);
  return answer_of(cuda.driver.cuMemSetAccess(address, nbytes, cuda.access.data(), cuda.access.size()));
}

int unmap(void *context, uint64_t address, uint64_t nbytes) {
  Cuda &cuda = cuda_of(context);
  Relaxed relaxed(cuda.driver);
  std::lock_guard<std::mutex> guard(cuda.mutex);
  int answer = answer_of_return(cuda.driver.cuMemUnmap(address, nbytes));
  if (answer == CUPLUG_OK)
    cuda.mapped.erase(cuda.mapped.lower_bound(address), cuda.mapped.lower_bound(address + nbytes));
  return answer;
}

/* Let the device `peer` touch what is mapped and what will be. */
CUresult admit(Cuda &cuda, int peer) {
  std::lock_guard<std::mutex> guard(cuda.mutex);
  const CUmemAccessDesc theirs = access_for(peer);
  for (const CUmemAccessDesc &access : cuda.access)
    if (access.location.id == peer) return SUCCESS;
  for (const auto &[address, nbytes] : cuda.mapped) {
    CUresult code = cuda.driver.cuMemSetAccess(address, nbytes, &theirs, 1);
    if (code != SUCCESS) return code;
  }
  cuda.access.push_back(theirs);
  return SUCCESS;
}

/* --- the whole */

void close(void *context) {
  Cuda *cuda = &cuda_of(context);
  {
    Everywhere &all = everywhere();
    std::lock_guard<std::mutex> guard(all.mutex);
    all.upstreams.erase(std::remove(all.upstreams.begin(), all.upstreams.end(), cuda), all.upstreams.end());
  }
  for (CUevent event : cuda->spare_events) cuda->driver.cuEventDestroy(event);
  for (const auto &[handle, file] : cuda->files) ::close(file);
  cuda->driver.cuDevicePrimaryCtxRelease(cuda->device);
  delete cuda;
}

/* The granularity of the device's virtual memory; 0 where there is none. */
uint64_t page_granularity_of(const Cuda &cuda) {
  int supported = 0;
  size_t granularity = 0;
  if (cuda.driver.cuMemGetAllocationGranularity == nullptr) return 0;
  if (cuda.driver.cuDeviceGetAttribute(&supported, VIRTUAL_MEMORY_SUPPORTED, cuda.device) != SUCCESS || !supported)
    return 0;
  CUresult code = cuda.driver.cuMemGetAllocationGranularity(&granularity, &cuda.properties, GRANULARITY_MINIMUM);
  return code == SUCCESS ? granularity : 0;
}

bool has(const Cuda &cuda, int attribute) {
  int value = 0;
  return cuda.driver.cuDeviceGetAttribute(&value, attribute, cuda.device) == SUCCESS && value != 0;
}

/* Whether pages can be shared with other processes. They are made for it then. */
bool shares_pages(Cuda &cuda) {
  if (cuda.driver.cuMemExportToShareableHandle == nullptr || !has(cuda, FILES_SUPPORTED)) return false;
  cuda.properties.requestedHandleTypes = AS_FILE;
  if (!has(cuda, FABRIC_SUPPORTED)) return true;
  /* The device has fabric handles, too, by which other hosts of its NVLink domain map pages (NCCL, NVSHMEM). Whether this
   * process may make them is known once it has tried. */
  cuda.properties.requestedHandleTypes = AS_FILE | AS_FABRIC;
  CUmemGenericAllocationHandle tried = 0;
  if (cuda.driver.cuMemCreate(&tried, page_granularity_of(cuda), &cuda.properties, 0) == SUCCESS)
    cuda.driver.cuMemRelease(tried);
  else
    cuda.properties.requestedHandleTypes = AS_FILE;
  return true;
}

/* Whether other devices on the bus, network cards above all, are to reach the pages (GPUDirect RDMA): yes, as PyTorch has it,
 * unless CUPLUG_RDMA is 0, which saves some microseconds for each time that a page is mapped. -1: it is something else. */
int wants_rdma() {
  const char *said = std::getenv("CUPLUG_RDMA");
  if (said == nullptr || *said == 0 || std::strcmp(said, "1") == 0) return 1;
  return std::strcmp(said, "0") == 0 ? 0 : -1;
}

/* Whether pages of the host's memory can be made, that stand wherever the device's may. Fills `of_host`. */
bool has_host_pages(Cuda &cuda, uint64_t page_granularity) {
  int node = 0;
  size_t granularity = 0;
  if (page_granularity == 0 || cuda.driver.cuDeviceGetAttribute(&node, HOST_NUMA_ID, cuda.device) != SUCCESS) return false;
  cuda.of_host.type = ALLOCATION_PINNED;
  cuda.of_host.location = {LOCATION_HOST_NUMA, std::max(node, 0)};
  CUresult code = cuda.driver.cuMemGetAllocationGranularity(&granularity, &cuda.of_host, GRANULARITY_MINIMUM);
  return code == SUCCESS && granularity != 0 && page_granularity % granularity == 0;
}

/* Map `count` pages, which `import` gets hold of, one behind the other on the device `ordinal`. */
template <class NbytesOf, class Import>
int open_pages(int ordinal, size_t count, NbytesOf nbytes_of, Import import, uint64_t *address) {
  const Api *driver = api();
  if (driver == nullptr || driver->cuMemImportFromShareableHandle == nullptr) return CUPLUG_NOT_SUPPORTED;
  Relaxed relaxed(*driver);
  uint64_t nbytes = 0, mapped = 0;
  CUdeviceptr start = 0;
  for (size_t at = 0; at < count; ++at) nbytes += nbytes_of(at);
  CUresult code = driver->cuMemAddressReserve(&start, nbytes, 0, 0, 0);
  if (code != SUCCESS) return answer_of(code);
  for (size_t at = 0; at < count && code == SUCCESS; ++at) {
    CUmemGenericAllocationHandle handle = 0;
    code = import(*driver, &handle, at);
    if (code != SUCCESS) break;
    code = driver->cuMemMap(start + mapped, nbytes_of(at), 0, handle, 0);
    if (code == SUCCESS) mapped += nbytes_of(at);
    driver->cuMemRelease(handle); /* what is mapped stays */
  }
  try {
    if (code == SUCCESS) {
      std::vector<CUmemAccessDesc> access = {access_for(ordinal)};
      std::lock_guard<std::mutex> guard(everywhere().mutex);
      for (const auto &[owner, peer] : everywhere().peers)
        if (owner == ordinal) access.push_back(access_for(peer));
      code = driver->cuMemSetAccess(start, nbytes, access.data(), access.size());
    }
  } catch (const std::bad_alloc &) {
    code = ERROR_OUT_OF_MEMORY;
  }
  if (code == SUCCESS) {
    *address = start;
    return CUPLUG_OK;
  }
  if (mapped != 0) driver->cuMemUnmap(start, mapped);
  driver->cuMemAddressFree(start, nbytes);
  return answer_of(code);
}

}  // namespace

extern "C" {

EXPORT int cuplug_cuda_upstream(int ordinal, cuplug_upstream *made) {
  if (made == nullptr) {
    cuplug::set_last_error("a pointer is null");
    return CUPLUG_INVALID;
  }
  const Api *driver = api();
  if (driver == nullptr) {
    cuplug::set_last_error("the CUDA driver (libcuda.so.1) is not there, or cannot be initialised");
    return CUPLUG_NOT_SUPPORTED;
  }
  const int rdma = wants_rdma();
  if (rdma < 0) {
    cuplug::set_last_error("the environment variable CUPLUG_RDMA is neither 0 nor 1; set it to one of them, or unset it");
    return CUPLUG_INVALID;
  }
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUresult code = driver->cuDeviceGet(&device, ordinal);
  if (code == SUCCESS) code = driver->cuDevicePrimaryCtxRetain(&context, device);
  if (code != SUCCESS) {
    char message[64];
    std::snprintf(message, sizeof message, "device %d: CUDA error %d", ordinal, code);
    cuplug::set_last_error(message);
    answer_of(code);
    return CUPLUG_FAILED;
  }
  CUmemLocation where{LOCATION_DEVICE, ordinal};
  CUmemAllocationProp properties{};
  properties.type = ALLOCATION_PINNED;
  properties.location = where;
  Cuda *cuda = nullptr;
  try {
    std::unique_ptr<Cuda> whole(
        new Cuda{*driver, device, context, properties, {}, {}, {}, {access_for(ordinal)}, {}, {}});
    Everywhere &all = everywhere();
    std::lock_guard<std::mutex> guard(all.mutex);
    for (const auto &[owner, peer] : all.peers)
      if (owner == ordinal) whole->access.push_back(access_for(peer));
    all.upstreams.push_back(whole.get());
    cuda = whole.release();
  } catch (const std::bad_alloc &) {
    driver->cuDevicePrimaryCtxRelease(device);
    return CUPLUG_NO_HOST_MEMORY;
  }
  const bool shares = page_granularity_of(*cuda) != 0 && shares_pages(*cuda);
  cuda->properties.allocFlags.gpuDirectRDMACapable = rdma != 0 && has(*cuda, RDMA_SUPPORTED);
  const uint64_t granularity = page_granularity_of(*cuda);
  *made = cuplug_upstream{cuda,          reserve,    release,     memory_info,  fence,
                          fence_done,    fence_wait, fence_drop,  512,          granularity,
                          reserve_range, free_range, create_page, release_page, map,
                          set_access,    unmap,      close,       fence_everything,
                          has_host_pages(*cuda, granularity) ? create_host_page : nullptr,
                          granularity != 0 && shares ? export_page : nullptr};
  return CUPLUG_OK;
}

EXPORT int cuplug_cuda_admit_peer(int ordinal, int peer) {
  if (ordinal < 0 || peer < 0) return CUPLUG_INVALID;
  Everywhere &all = everywhere();
  std::lock_guard<std::mutex> guard(all.mutex);
  const std::pair<int, int> both(ordinal, peer);
  try {
    if (std::find(all.peers.begin(), all.peers.end(), both) != all.peers.end()) return CUPLUG_OK;
    all.peers.reserve(all.peers.size() + 1);
    for (Cuda *cuda : all.upstreams) {
      CUresult code = cuda->properties.location.id == ordinal ? admit(*cuda, peer) : SUCCESS;
      if (code != SUCCESS) return answer_of(code);
    }
  } catch (const std::bad_alloc &) {
    return CUPLUG_NO_HOST_MEMORY;
  }
  all.peers.push_back(both);
  return CUPLUG_OK;
}

EXPORT int cuplug_cuda_open_pages(int ordinal, const cuplug_shared_page *pages, size_t count, uint64_t *address) {
  if ((pages == nullptr && count != 0) || address == nullptr) return CUPLUG_INVALID;
  auto import = [&](const Api &driver, CUmemGenericAllocationHandle *handle, size_t at) {
    return driver.cuMemImportFromShareableHandle(handle, reinterpret_cast<void *>(intptr_t(pages[at].file)), AS_FILE);
  };
  return open_pages(ordinal, count, [&](size_t at) { return pages[at].nbytes; }, import, address);
}

EXPORT int cuplug_cuda_open_fabric(int ordinal, uint64_t page_nbytes, const void *handles, size_t count, uint64_t *address) {
  if ((handles == nullptr && count != 0) || address == nullptr) return CUPLUG_INVALID;
  auto import = [&](const Api &driver, CUmemGenericAllocationHandle *handle, size_t at) {
    const char *theirs = static_cast<const char *>(handles) + at * FABRIC_HANDLE; /* read, and no more */
    return driver.cuMemImportFromShareableHandle(handle, const_cast<char *>(theirs), AS_FABRIC);
  };
  return open_pages(ordinal, count, [&](size_t) { return page_nbytes; }, import, address);
}

EXPORT int cuplug_cuda_close_pages(uint64_t address, uint64_t nbytes) {
  const Api *driver = api();
  if (driver == nullptr) return CUPLUG_NOT_SUPPORTED;
  Relaxed relaxed(*driver);
  const int answer = answer_of_return(driver->cuMemUnmap(address, nbytes));
  return answer == CUPLUG_OK ? answer_of_return(driver->cuMemAddressFree(address, nbytes)) : answer;
}

EXPORT void cuplug_cuda_capture(int change) { captures.fetch_add(change, std::memory_order_relaxed); }

EXPORT int cuplug_cuda_is_capturing(void) { return captures.load(std::memory_order_relaxed) > 0; }

EXPORT int cuplug_cuda_last_result(void) { return last_code; }

}  // extern "C"

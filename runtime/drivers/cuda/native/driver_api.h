/* The functions of the CUDA driver that the core calls, found in its library at run time.
 *
 * Types, numbers and layouts are those of the CUDA driver API (cuda.h, version 12; they are part of its binary interface
 * and have not changed since 10.2). They are declared here since the core is built without CUDA's headers. */
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "allocators/native/cuplug_allocator.h"

namespace cuplug::cuda {

using CUresult = int;
using CUdevice = int;
using CUcontext = void *;
using CUevent = void *;
using CUstream = void *;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;

constexpr CUresult SUCCESS = 0, ERROR_OUT_OF_MEMORY = 2, ERROR_NOT_READY = 600, ERROR_CAPTURE_UNSUPPORTED = 900;
constexpr unsigned EVENT_DISABLE_TIMING = 2;           /* CU_EVENT_DISABLE_TIMING */
constexpr int VIRTUAL_MEMORY_SUPPORTED = 102;          /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
constexpr int FILES_SUPPORTED = 103;                   /* CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
constexpr int RDMA_SUPPORTED = 110;                    /* CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
constexpr int FABRIC_SUPPORTED = 128;                  /* CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED */
constexpr int AS_FILE = 1, AS_FABRIC = 8;              /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_HANDLE_TYPE_FABRIC */
constexpr size_t FABRIC_HANDLE = 64;                   /* bytes of a CUmemFabricHandle */
constexpr int ALLOCATION_PINNED = 1;                   /* CU_MEM_ALLOCATION_TYPE_PINNED */
constexpr int LOCATION_DEVICE = 1;                     /* CU_MEM_LOCATION_TYPE_DEVICE */
constexpr int LOCATION_HOST_NUMA = 3;                  /* CU_MEM_LOCATION_TYPE_HOST_NUMA, since CUDA 12.2 */
constexpr int HOST_NUMA_ID = 134;                      /* CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID */
constexpr int ACCESS_READWRITE = 3;                    /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
constexpr int GRANULARITY_MINIMUM = 0;                 /* CU_MEM_ALLOC_GRANULARITY_MINIMUM */
constexpr uint64_t PER_THREAD_KEY = uint64_t(1) << 63; /* runtime/upstream.py */

struct CUmemLocation {
  int type; /* CUmemLocationType */
  int id;   /* the device's ordinal */
};
struct CUmemAllocationProp {
  int type;                 /* CUmemAllocationType */
  int requestedHandleTypes; /* CUmemAllocationHandleType: how other processes may get at it; 0 for not at all */
  CUmemLocation location;
  void *win32HandleMetaData;
  struct {
    unsigned char compressionType;
    unsigned char gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};
static_assert(sizeof(CUmemAllocationProp) == 32, "as in cuda.h");
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags; /* CUmemAccess_flags */
};
static_assert(sizeof(CUmemAccessDesc) == 12, "as in cuda.h");

/* The driver's functions, under the names that its library exports. */
struct Api {
  CUresult (*cuInit)(unsigned flags);
  CUresult (*cuDeviceGet)(CUdevice *, int ordinal);
  CUresult (*cuDeviceGetAttribute)(int *value, int attribute, CUdevice);
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext *, CUdevice);
  CUresult (*cuDevicePrimaryCtxRelease)(CUdevice);
  CUresult (*cuCtxGetCurrent)(CUcontext *);
  CUresult (*cuCtxPushCurrent)(CUcontext);
  CUresult (*cuCtxPopCurrent)(CUcontext *);
  CUresult (*cuMemAlloc)(CUdeviceptr *, size_t nbytes);
  CUresult (*cuMemFree)(CUdeviceptr);
  CUresult (*cuMemGetInfo)(size_t *free, size_t *total);
  CUresult (*cuStreamIsCapturing)(CUstream, int *status);
  CUresult (*cuThreadExchangeStreamCaptureMode)(int *mode);
  CUresult (*cuEventCreate)(CUevent *, unsigned flags);
  CUresult (*cuEventRecord)(CUevent, CUstream);
  CUresult (*cuEventQuery)(CUevent);
  CUresult (*cuEventSynchronize)(CUevent);
  CUresult (*cuEventDestroy)(CUevent);
  CUresult (*cuCtxRecordEvent)(CUcontext, CUevent); /* since CUDA 12.5; null before */
  /* Virtual memory; all are null where the library lacks one of them. */
  CUresult (*cuMemGetAllocationGranularity)(size_t *, const CUmemAllocationProp *, int option);
  CUresult (*cuMemAddressReserve)(CUdeviceptr *, size_t nbytes, size_t alignment, CUdeviceptr wanted,
                                  unsigned long long flags);
  CUresult (*cuMemAddressFree)(CUdeviceptr, size_t nbytes);
  CUresult (*cuMemCreate)(CUmemGenericAllocationHandle *, size_t nbytes, const CUmemAllocationProp *,
                          unsigned long long flags);
  CUresult (*cuMemRelease)(CUmemGenericAllocationHandle);
  CUresult (*cuMemMap)(CUdeviceptr, size_t nbytes, size_t offset, CUmemGenericAllocationHandle,
                       unsigned long long flags);
  CUresult (*cuMemSetAccess)(CUdeviceptr, size_t nbytes, const CUmemAccessDesc *, size_t count);
  CUresult (*cuMemUnmap)(CUdeviceptr, size_t nbytes);
  /* Of pages between processes; null where the library lacks them. */
  CUresult (*cuMemExportToShareableHandle)(void *made, CUmemGenericAllocationHandle, int type, unsigned long long flags);
  CUresult (*cuMemImportFromShareableHandle)(CUmemGenericAllocationHandle *, void *handle, int type);
};

template <class Function>
bool find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/* The driver's functions, looked up once; null where there is no driver. */
inline const Api *api() {
  static const Api *const found = []() -> const Api * {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) return nullptr;
    static Api made{};
    bool all = find(library, "cuInit", made.cuInit) && find(library, "cuDeviceGet", made.cuDeviceGet) &&
               find(library, "cuDeviceGetAttribute", made.cuDeviceGetAttribute) &&
               find(library, "cuDevicePrimaryCtxRetain", made.cuDevicePrimaryCtxRetain) &&
               find(library, "cuDevicePrimaryCtxRelease_v2", made.cuDevicePrimaryCtxRelease) &&
               find(library, "cuCtxGetCurrent", made.cuCtxGetCurrent) &&
               find(library, "cuCtxPushCurrent_v2", made.cuCtxPushCurrent) &&
               find(library, "cuCtxPopCurrent_v2", made.cuCtxPopCurrent) &&
               find(library, "cuMemAlloc_v2", made.cuMemAlloc) && find(library, "cuMemFree_v2", made.cuMemFree) &&
               find(library, "cuMemGetInfo_v2", made.cuMemGetInfo) &&
               find(library, "cuStreamIsCapturing", made.cuStreamIsCapturing) &&
               find(library, "cuThreadExchangeStreamCaptureMode", made.cuThreadExchangeStreamCaptureMode) &&
               find(library, "cuEventCreate", made.cuEventCreate) &&
               find(library, "cuEventRecord", made.cuEventRecord) && find(library, "cuEventQuery", made.cuEventQuery) &&
               find(library, "cuEventSynchronize", made.cuEventSynchronize) &&
               find(library, "cuEventDestroy_v2", made.cuEventDestroy);
    bool pages = find(library, "cuMemGetAllocationGranularity", made.cuMemGetAllocationGranularity) &&
                 find(library, "cuMemAddressReserve", made.cuMemAddressReserve) &&
                 find(library, "cuMemAddressFree", made.cuMemAddressFree) &&
                 find(library, "cuMemCreate", made.cuMemCreate) && find(library, "cuMemRelease", made.cuMemRelease) &&
                 find(library, "cuMemMap", made.cuMemMap) && find(library, "cuMemSetAccess", made.cuMemSetAccess) &&
                 find(library, "cuMemUnmap", made.cuMemUnmap);
    if (!pages) made.cuMemGetAllocationGranularity = nullptr;
    find(library, "cuCtxRecordEvent", made.cuCtxRecordEvent);
    find(library, "cuMemExportToShareableHandle", made.cuMemExportToShareableHandle);
    find(library, "cuMemImportFromShareableHandle", made.cuMemImportFromShareableHandle);
    return all && made.cuInit(0) == SUCCESS ? &made : nullptr;
  }();
  return found;
}

inline thread_local CUresult last_code = SUCCESS; /* of the latest call that failed */

inline int answer_of(CUresult code) {
  if (code == SUCCESS) return CUPLUG_OK;
  last_code = code;
  return code == ERROR_OUT_OF_MEMORY ? CUPLUG_OUT_OF_MEMORY : CUPLUG_FAILED;
}

/* Results after which nothing can be used or need be freed any more (LOST in runtime/drivers/cuda/api.py). */
inline bool is_lost(CUresult code) {
  for (CUresult lost : {4, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719})
    if (code == lost) return true;
  return false;
}

/* For what gives something back: it passes once the device is lost, since that has gone already. */
inline int answer_of_return(CUresult code) { return is_lost(code) ? CUPLUG_OK : answer_of(code); }

inline CUmemAccessDesc access_for(int ordinal) { return {{LOCATION_DEVICE, ordinal}, ACCESS_READWRITE}; }

inline std::atomic<int> captures{0}; /* how many are under way (cuplug_cuda_capture) */
constexpr int CAPTURE_MODE_RELAXED = 2; /* CU_STREAM_CAPTURE_MODE_RELAXED */

/* While work is being captured, lets the calling thread make calls that would otherwise break a capture off. Such a call
 * concerns memory that no captured work has touched yet, or marks work that is not captured. */
class Relaxed {
 public:
  explicit Relaxed(const Api &driver) : driver_(driver) {
    if (captures.load(std::memory_order_relaxed) == 0) return;
    changed_ = driver_.cuThreadExchangeStreamCaptureMode(&mode_) == SUCCESS;
  }
  Relaxed(const Relaxed &) = delete;
  Relaxed &operator=(const Relaxed &) = delete;
  ~Relaxed() {
    if (changed_) driver_.cuThreadExchangeStreamCaptureMode(&mode_);
  }

 private:
  const Api &driver_;
  int mode_ = CAPTURE_MODE_RELAXED;
  bool changed_ = false;
};

}  // namespace cuplug::cuda

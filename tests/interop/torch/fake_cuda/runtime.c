/* A stand-in for CUDA's runtime, loaded before it: so much that PyTorch's CUDA wheel asks for memory on a machine without a
 * GPU. No memory is touched, no kernel runs, nothing is captured. What is not here, CUDA's own library answers: by errors.
 *
 * Functions have the names that libraries ask for, by labels: in CUDA's headers some are macros. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define TOTAL ((size_t)80 << 30)
#define PAGE ((size_t)2 << 20)
#define STAND_IN(name, ...)                                          \
  cudaError_t stand_in_##name(__VA_ARGS__) __asm__(#name);           \
  __attribute__((visibility("default"))) cudaError_t stand_in_##name(__VA_ARGS__)
#define SUCCEEDS(name, ...) \
  STAND_IN(name, __VA_ARGS__) { return cudaSuccess; }

static __thread int device = 0;
static size_t top = 0x600000000000;
static long streams = 4096;

static int nothing(void) { return 0; }

static cudaError_t describe(struct cudaDeviceProp *properties) {
  memset(properties, 0, sizeof *properties);
  strcpy(properties->name, "stand-in");
  properties->totalGlobalMem = TOTAL;
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->warpSize = 32;
  properties->maxThreadsPerMultiProcessor = 2048;
  return cudaSuccess;
}

/* --- devices */

STAND_IN(cudaGetDeviceCount, int *count) { return *count = 1, cudaSuccess; }
STAND_IN(cudaGetDevice, int *current) { return *current = device, cudaSuccess; }
STAND_IN(cudaSetDevice, int wanted) { return device = wanted, cudaSuccess; }
STAND_IN(cudaGetDeviceProperties, struct cudaDeviceProp *properties, int of) { return describe(properties); }
STAND_IN(cudaGetDeviceProperties_v2, struct cudaDeviceProp *properties, int of) { return describe(properties); }
STAND_IN(cudaDeviceGetAttribute, int *value, enum cudaDeviceAttr attribute, int of) {
  return *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0, cudaSuccess;
}
STAND_IN(cudaDeviceGetPCIBusId, char *text, int room, int of) { return strncpy(text, "0000:00:00.0", room), cudaSuccess; }
STAND_IN(cudaDeviceGetStreamPriorityRange, int *least, int *greatest) {
  return *least = 0, *greatest = -5, cudaSuccess;
}
STAND_IN(cudaDeviceCanAccessPeer, int *can, int from, int to) { return *can = 0, cudaSuccess; }
STAND_IN(cudaDeviceGetDefaultMemPool, cudaMemPool_t *pool, int of) { return cudaErrorNotSupported; }
STAND_IN(cudaDriverGetVersion, int *version) { return *version = 13000, cudaSuccess; }
STAND_IN(cudaRuntimeGetVersion, int *version) { return *version = CUDART_VERSION, cudaSuccess; }
static cudaError_t find_in_driver(const char *name, void **found, int *result) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  *found = driver ? dlsym(driver, name) : NULL;
  if (!*found) *found = (void *)nothing;
  if (result) *result = 0;
  return cudaSuccess;
}
STAND_IN(cudaGetDriverEntryPoint, const char *name, void **found, unsigned long long flags, int *result) {
  return find_in_driver(name, found, result);
}
STAND_IN(cudaGetDriverEntryPointByVersion, const char *name, void **found, unsigned version, unsigned long long flags,
         int *result) {
  return find_in_driver(name, found, result);
}
SUCCEEDS(cudaDeviceEnablePeerAccess, int peer, unsigned flags)
SUCCEEDS(cudaDeviceSynchronize, void)
SUCCEEDS(cudaGetLastError, void)
SUCCEEDS(cudaPeekAtLastError, void)
SUCCEEDS(cudaThreadExchangeStreamCaptureMode, enum cudaStreamCaptureMode *mode)

const char *name_of_error(cudaError_t error) __asm__("cudaGetErrorName");
__attribute__((visibility("default"))) const char *name_of_error(cudaError_t error) { return "standInError"; }
const char *text_of_error(cudaError_t error) __asm__("cudaGetErrorString");
__attribute__((visibility("default"))) const char *text_of_error(cudaError_t error) { return "an error of the stand-in"; }

/* --- memory */

STAND_IN(cudaMemGetInfo, size_t *free, size_t *total) { return *free = TOTAL / 8 * 7, *total = TOTAL, cudaSuccess; }
STAND_IN(cudaMalloc, void **address, size_t nbytes) {
  nbytes = (nbytes + PAGE - 1) / PAGE * PAGE;
  if (nbytes > TOTAL) return cudaErrorMemoryAllocation;
  *address = (void *)top;
  top += nbytes;
  return cudaSuccess;
}
STAND_IN(cudaPointerGetAttributes, struct cudaPointerAttributes *attributes, const void *address) {
  return memset(attributes, 0, sizeof *attributes), cudaSuccess;
}
STAND_IN(cudaIpcGetMemHandle, cudaIpcMemHandle_t *handle, void *address) {
  return memset(handle, 7, sizeof *handle), cudaSuccess;
}
STAND_IN(cudaIpcGetEventHandle, cudaIpcEventHandle_t *handle, cudaEvent_t event) {
  return memset(handle, 0, sizeof *handle), cudaSuccess;
}
STAND_IN(cudaIpcOpenEventHandle, cudaEvent_t *event, cudaIpcEventHandle_t handle) {
  return *event = (cudaEvent_t)64, cudaSuccess;
}
SUCCEEDS(cudaFree, void *address)
SUCCEEDS(cudaHostRegister, void *address, size_t nbytes, unsigned flags)

/* --- streams and events: everything is done at once */

STAND_IN(cudaStreamCreateWithPriority, cudaStream_t *stream, unsigned flags, int priority) {
  return *stream = (cudaStream_t)(streams += 64), cudaSuccess;
}
STAND_IN(cudaStreamGetPriority, cudaStream_t stream, int *priority) { return *priority = 0, cudaSuccess; }
STAND_IN(cudaStreamIsCapturing, cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  return *status = cudaStreamCaptureStatusNone, cudaSuccess;
}
STAND_IN(cudaEventCreateWithFlags, cudaEvent_t *event, unsigned flags) { return *event = (cudaEvent_t)64, cudaSuccess; }
SUCCEEDS(cudaStreamSynchronize, cudaStream_t stream)
SUCCEEDS(cudaStreamWaitEvent, cudaStream_t stream, cudaEvent_t event, unsigned flags)
SUCCEEDS(cudaEventRecord, cudaEvent_t event, cudaStream_t stream)
SUCCEEDS(cudaEventQuery, cudaEvent_t event)
SUCCEEDS(cudaEventSynchronize, cudaEvent_t event)
SUCCEEDS(cudaEventDestroy, cudaEvent_t event)

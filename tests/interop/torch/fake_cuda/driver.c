/* A stand-in for CUDA's driver, libcuda.so.1: so much that PyTorch's CUDA wheel loads and starts. There is one device. Its memory, of
 * which the core takes as it would of a GPU's, is addresses alone. Everything that is queued is done at once. */
#include <stddef.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }

#define NOTHING(name) \
  int name(void) { return 0; }
NOTHING(cuDevicePrimaryCtxGetState)
NOTHING(cuGetErrorString)
NOTHING(cuGetErrorName)
NOTHING(cuModuleLoadData)
NOTHING(cuModuleLoadDataEx)
NOTHING(cuModuleGetFunction)
NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NOTHING(cuLaunchKernel)
NOTHING(cuLaunchCooperativeKernel)
NOTHING(cuModuleUnload)
NOTHING(cuLinkCreate)
NOTHING(cuLinkAddData)
NOTHING(cuLinkComplete)
NOTHING(cuFuncSetAttribute)
NOTHING(cuFuncGetAttribute)
NOTHING(cuTensorMapEncodeTiled)
NOTHING(cuStreamWriteValue32)
NOTHING(cuMulticastCreate)
NOTHING(cuLaunchKernelEx)
NOTHING(cuPointerGetAttribute)
NOTHING(cuLinkCreate_v2)
NOTHING(cuLinkAddData_v2)
NOTHING(cuGetProcAddress)
NOTHING(cuGetProcAddress_v2)
NOTHING(cuLinkDestroy)

/* --- what cuplug's core calls */

typedef unsigned long long Address;
static Address top = 0x600000000000, handles = 0;
static char context[1];

int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal == 0 ? 0 : 101; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  return *value = attribute == 75 ? 9 : attribute == 102, 0; /* compute capability 9.0, virtual memory */
}
int cuDevicePrimaryCtxRetain(void **made, int device) { return *made = context, 0; }
int cuCtxGetCurrent(void **current) { return *current = context, 0; }
int cuCtxPopCurrent_v2(void **current) { return *current = context, 0; }
int cuMemAlloc_v2(Address *address, size_t nbytes) {
  if (nbytes > (size_t)80 << 30) return 2; /* CUDA_ERROR_OUT_OF_MEMORY */
  *address = top;
  top += (nbytes + (2 << 20) - 1) >> 21 << 21;
  return 0;
}
int cuMemGetInfo_v2(size_t *free, size_t *total) { return *free = (size_t)70 << 30, *total = (size_t)80 << 30, 0; }
int cuStreamIsCapturing(void *stream, int *status) { return *status = 0, 0; }
int cuEventCreate(void **event, unsigned flags) { return *event = context, 0; }
int cuMemGetAllocationGranularity(size_t *nbytes, const void *properties, int option) { return *nbytes = 2 << 20, 0; }
int cuMemAddressReserve(Address *address, size_t nbytes, size_t alignment, Address wanted, Address flags) {
  *address = top;
  top += nbytes;
  return 0;
}
int cuMemCreate(Address *handle, size_t nbytes, const void *properties, Address flags) { return *handle = ++handles, 0; }
NOTHING(cuDevicePrimaryCtxRelease_v2)
NOTHING(cuCtxPushCurrent_v2)
NOTHING(cuCtxSetCurrent)
NOTHING(cuMemFree_v2)
NOTHING(cuThreadExchangeStreamCaptureMode)
NOTHING(cuEventRecord)
NOTHING(cuEventQuery)
NOTHING(cuEventSynchronize)
NOTHING(cuEventDestroy_v2)
NOTHING(cuMemAddressFree)
NOTHING(cuMemRelease)
NOTHING(cuMemMap)
NOTHING(cuMemSetAccess)
NOTHING(cuMemUnmap)

/* A stand-in for CUDA's driver, libcuda.so.1: so much that PyTorch's CUDA wheel loads and starts. There is one device. Its memory, of
 * which the core takes as it would of a GPU's, is addresses alone, but for that which is mapped page by page. Everything
 * that is queued is done at once. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
static const size_t total = (size_t)80 << 30;
static Address top = 0x600000000000;
static char context[1];

/* How many pages were made that have a fabric handle, and that other devices on the bus may reach. */
int of_fabric = 0, of_rdma = 0;
/* "yes"; "no" where the device has no fabric handles; "refused" where this process may not make them. */
static const char *fabric(void) {
  const char *said = getenv("STAND_IN_FABRIC");
  return said ? said : "no";
}

/* How long it takes to make 2 MiB of memory, in microseconds. CUDA's driver ends with the process, and a call that is under way then
 * may find nothing where the driver was: here it is told. */
static int under_way = 0;
static void take_time(size_t nbytes) {
  const char *said = getenv("STAND_IN_TIME_US");
  if (!said) return;
  __atomic_add_fetch(&under_way, 1, __ATOMIC_SEQ_CST);
  usleep(atoi(said) * (nbytes >> 21));
  __atomic_sub_fetch(&under_way, 1, __ATOMIC_SEQ_CST);
}
__attribute__((destructor)) static void end(void) {
  if (__atomic_load_n(&under_way, __ATOMIC_SEQ_CST)) fputs("the driver ended while a call was under way\n", stderr);
}

int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal == 0 ? 0 : 101; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  /* compute capability 9.0; virtual memory, files for it, GPUDirect RDMA, fabric handles */
  const int has = attribute == 102 || attribute == 103 || attribute == 110 || (attribute == 128 && strcmp(fabric(), "no"));
  return *value = attribute == 75 ? 9 : has, 0;
}
int cuDevicePrimaryCtxRetain(void **made, int device) { return *made = context, 0; }
int cuCtxGetCurrent(void **current) { return *current = context, 0; }
int cuCtxPopCurrent_v2(void **current) { return *current = context, 0; }
int cuMemAlloc_v2(Address *address, size_t nbytes) {
  if (nbytes > total) return 2; /* CUDA_ERROR_OUT_OF_MEMORY */
  take_time(nbytes);
  *address = top;
  top += (nbytes + (2 << 20) - 1) >> 21 << 21;
  return 0;
}
int cuMemGetInfo_v2(size_t *free, size_t *all) { return *free = total / 8 * 7, *all = total, 0; }
int cuStreamIsCapturing(void *stream, int *status) { return *status = 0, 0; }
int cuEventCreate(void **event, unsigned flags) { return *event = context, 0; }
NOTHING(cuDevicePrimaryCtxRelease_v2)
NOTHING(cuCtxPushCurrent_v2)
NOTHING(cuCtxSetCurrent)
NOTHING(cuMemFree_v2)
NOTHING(cuThreadExchangeStreamCaptureMode)
NOTHING(cuEventRecord)
NOTHING(cuEventQuery)
NOTHING(cuEventSynchronize)
NOTHING(cuEventDestroy_v2)

/* --- virtual memory, which is the machine's own: a page is a file without a name, whose number is its handle. So it has
 * contents, and other processes can map it. */

int cuMemGetAllocationGranularity(size_t *nbytes, const void *properties, int option) { return *nbytes = 2 << 20, 0; }
int cuMemAddressReserve(Address *address, size_t nbytes, size_t alignment, Address wanted, Address flags) {
  size_t page = 2 << 20;
  char *made = mmap(NULL, nbytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return 2;
  *address = ((Address)made + page - 1) / page * page;
  return 0;
}
/* Reserved addresses lie high. Below may be the program itself, which a wrong address must not end. */
static int is_reserved(Address address) { return address >= 1ull << 40; }
int cuMemAddressFree(Address address, size_t nbytes) {
  return is_reserved(address) && !munmap((void *)address, nbytes) ? 0 : 1;
}
int cuMemCreate(Address *handle, size_t nbytes, const int *properties, Address flags) {
  if (nbytes > total) return 2;
  take_time(nbytes);
  if (properties[1] & 8 && strcmp(fabric(), "yes")) return 800; /* CUDA_ERROR_NOT_PERMITTED */
  of_fabric += (properties[1] & 8) != 0;
  of_rdma += properties[6] >> 8 & 1; /* allocFlags.gpuDirectRDMACapable */
  int file = memfd_create("page", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, nbytes)) return 2;
  return *handle = file, 0;
}
int cuMemRelease(Address handle) { return close((int)handle) ? 1 : 0; }
int cuMemMap(Address address, size_t nbytes, size_t offset, Address handle, Address flags) {
  struct stat of;
  if (fstat((int)handle, &of) || (size_t)of.st_size != nbytes) return 1; /* pages are mapped whole */
  void *made = mmap((void *)address, nbytes, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)handle, offset);
  return made == MAP_FAILED ? 1 : 0;
}
int cuMemSetAccess(Address address, size_t nbytes, const void *access, size_t count) {
  return mprotect((void *)address, nbytes, PROT_READ | PROT_WRITE) ? 1 : 0;
}
int cuMemUnmap(Address address, size_t nbytes) {
  if (!is_reserved(address)) return 1;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return mmap((void *)address, nbytes, PROT_NONE, flags, -1, 0) == MAP_FAILED ? 1 : 0;
}
int cuMemExportToShareableHandle(void *made, Address handle, int type, Address flags) {
  if (type == 8) return snprintf(made, 64, "/proc/%d/fd/%d", getpid(), (int)handle), 0;
  int file = fcntl((int)handle, F_DUPFD_CLOEXEC, 0);
  return file < 0 ? 304 : (*(int *)made = file, 0);
}
int cuMemImportFromShareableHandle(Address *handle, void *file, int type) {
  int ours = type == 8 ? open(file, O_RDWR | O_CLOEXEC) : fcntl((int)(long)file, F_DUPFD_CLOEXEC, 0);
  return ours < 0 ? 304 : (*handle = ours, 0);
}

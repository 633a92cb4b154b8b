/* A stand-in for CUDA's driver, libcuda.so.1: so much that PyTorch's CUDA wheel loads and starts. There is one device. cuplug's
 * core finds it too small to take memory from. */
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
NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxSetCurrent)
NOTHING(cuModuleUnload)
NOTHING(cuDevicePrimaryCtxRetain)
NOTHING(cuLinkCreate)
NOTHING(cuLinkAddData)
NOTHING(cuLinkComplete)
NOTHING(cuFuncSetAttribute)
NOTHING(cuFuncGetAttribute)
NOTHING(cuTensorMapEncodeTiled)
NOTHING(cuStreamWriteValue32)
NOTHING(cuMemAlloc)
NOTHING(cuDeviceGet)
NOTHING(cuDeviceGetAttribute)
NOTHING(cuMulticastCreate)
NOTHING(cuLaunchKernelEx)
NOTHING(cuPointerGetAttribute)
NOTHING(cuLinkCreate_v2)
NOTHING(cuLinkAddData_v2)
NOTHING(cuGetProcAddress)
NOTHING(cuGetProcAddress_v2)
NOTHING(cuLinkDestroy)

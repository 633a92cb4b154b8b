/* A stand-in for libnvidia-ml.so.1, which PyTorch asks whether the device belongs to a fabric, and whose memory is on it:
 * it does not, and nobody's. */
#define NOT_SUPPORTED(name) \
  int name(void) { return 3; }
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) { return *device = (void *)bus, 0; }
int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *found) { return *count = 0; }
NOT_SUPPORTED(nvmlDeviceGetGpuFabricInfoV)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
NOT_SUPPORTED(nvmlSystemGetCudaDriverVersion_v2)

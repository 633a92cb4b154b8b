/* A stand-in for libnvidia-ml.so.1, which PyTorch asks whether the device belongs to a fabric: it does not. */
#define NOT_SUPPORTED(name) \
  int name(void) { return 3; }
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) { return *device = (void *)bus, 0; }
NOT_SUPPORTED(nvmlDeviceGetGpuFabricInfoV)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
NOT_SUPPORTED(nvmlDeviceGetComputeRunningProcesses)
NOT_SUPPORTED(nvmlSystemGetCudaDriverVersion_v2)

/* A stand-in for CUDA's driver that has events and nothing else: work on a stream is a number, which grows where the test
 * says so (`queue`) and has been done where it says so (`finish`). */
#include <stddef.h>
#include <stdlib.h>

enum { STREAMS = 8, NOT_READY = 600 };
struct event {
  int stream, number;
};
int queued[STREAMS], finished[STREAMS], alive;

int queue(int stream) { return ++queued[stream]; }
void finish(int stream) { finished[stream] = queued[stream]; }
int events(void) { return alive; }

int cuEventCreate(struct event **made, unsigned flags) {
  (void)flags;
  *made = calloc(1, sizeof **made);
  return ++alive, 0;
}
int cuEventDestroy_v2(struct event *event) {
  free(event);
  return --alive, 0;
}
int cuEventRecord(struct event *event, size_t stream) {
  event->stream = (int)stream;
  event->number = queued[stream];
  return 0;
}
int cuEventQuery(const struct event *event) { return finished[event->stream] >= event->number ? 0 : NOT_READY; }
int cuEventSynchronize(const struct event *event) {
  if (finished[event->stream] < event->number) finished[event->stream] = event->number;
  return 0;
}
int cuDevicePrimaryCtxRetain(void **made, int device) {
  (void)device;
  return *made = &alive, 0;
}
int cuStreamIsCapturing(size_t stream, int *status) {
  (void)stream;
  return *status = 0;
}
#define NOTHING(name) \
  int name(void) { return 0; }
NOTHING(cuInit)
NOTHING(cuDeviceGet)
NOTHING(cuDeviceGetAttribute)
NOTHING(cuDevicePrimaryCtxRelease_v2)
NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxPushCurrent_v2)
NOTHING(cuCtxPopCurrent_v2)
NOTHING(cuMemAlloc_v2)
NOTHING(cuMemFree_v2)
NOTHING(cuMemGetInfo_v2)
NOTHING(cuThreadExchangeStreamCaptureMode)

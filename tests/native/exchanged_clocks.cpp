/* Two threads push their events in another order than they read the clock: here the clock itself goes back. */
#include <time.h>

#include <cstdio>

#include "allocators/native/events.h"

namespace {
const long TIMES[] = {300, 100, 200, 500, 400, 600};
int readings = 0;
}  // namespace

extern "C" int clock_gettime(clockid_t, timespec *now) noexcept {
  *now = {0, TIMES[readings++]};
  return 0;
}

int main() {
  cuplug::Events events;
  events.observe(true);
  for (int count = 0; count < 6; ++count) events.emit(cuplug::SEGMENT_RESERVE, 0, 0, 512, 512);
  cuplug_event taken[6];
  size_t found = events.take(taken, 2);
  found += events.take(taken + found, 6 - found);
  for (size_t at = 0; at < found; ++at) std::printf("%d ", int(taken[at].time_ns));
}

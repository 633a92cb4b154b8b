/* How much memory the host can still give to a process, before memory is locked (host_room.py). */
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>

#ifndef CUPLUG_SYSTEM_ROOT
#define CUPLUG_SYSTEM_ROOT "" /* below it the system tells of itself */
#endif

namespace cuplug {

constexpr uint64_t LEFT_TO_THE_SYSTEM = uint64_t(1) << 30; /* where memory ends, Linux kills, while CUDA refuses */

/* The number in a file of the system; false where there is none, or it says "max". */
inline bool read_number(const char *path, const char *format, uint64_t *number) {
  std::FILE *file = std::fopen(path, "re");
  if (file == nullptr) return false;
  char line[128];
  bool found = false;
  unsigned long long value = 0;
  while (!found && std::fgets(line, sizeof line, file) != nullptr) found = std::sscanf(line, format, &value) == 1;
  std::fclose(file);
  *number = value;
  return found;
}

/* Bytes that a group of processes (a container) may still take. */
inline uint64_t left_in_group(const char *limit, const char *usage) {
  uint64_t most = 0, used = 0;
  if (!read_number(limit, "%llu", &most) || !read_number(usage, "%llu", &used)) return UINT64_MAX;
  return most > used ? most - used : 0;
}

/* Bytes that may be locked, as far as the system says: 0 where it does not. */
inline uint64_t lockable_bytes() {
  uint64_t kib = 0;
  if (!read_number(CUPLUG_SYSTEM_ROOT "/proc/meminfo", "MemAvailable: %llu kB", &kib)) return 0;
#define CUPLUG_GROUP CUPLUG_SYSTEM_ROOT "/sys/fs/cgroup/"
  const uint64_t left = std::min({kib << 10, left_in_group(CUPLUG_GROUP "memory.max", CUPLUG_GROUP "memory.current"),
                                  left_in_group(CUPLUG_GROUP "memory/memory.limit_in_bytes",
                                                CUPLUG_GROUP "memory/memory.usage_in_bytes")});
#undef CUPLUG_GROUP
  return left > LEFT_TO_THE_SYSTEM ? left - LEFT_TO_THE_SYSTEM : 0;
}

}  // namespace cuplug

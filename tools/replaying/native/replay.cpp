/* Replays a recorded history on an allocator, with the rules of cuplug/tools/replay.py. */
#include <cstdint>

#include "allocators/native/cuplug_allocator.h"

extern "C" __attribute__((visibility("default"))) int cuplug_replay(cuplug_allocator *allocator, const int64_t *steps,
                                                                    size_t count, const uint64_t *sizes,
                                                                    const uint64_t *streams, cuplug_block **blocks,
                                                                    int stop_at_failure, cuplug_replay_result *result) {
  if (result == nullptr) return CUPLUG_INVALID;
  *result = cuplug_replay_result{};
  const bool is_whole = steps != nullptr && sizes != nullptr && streams != nullptr && blocks != nullptr;
  if (allocator == nullptr || (count != 0 && !is_whole)) return CUPLUG_INVALID;
  for (; result->done < count; ++result->done) {
    int64_t step = steps[result->done];
    if (step > 0) {
      int64_t number = step - 1;
      int answer = cuplug_allocate(allocator, sizes[number], streams[number], 0, &blocks[number]);
      if (answer == CUPLUG_OK) continue;
      if (answer != CUPLUG_OUT_OF_MEMORY) return answer;
      if (result->out_of_memory++ == 0) { /* what depends on it is passed over: its block stays null */
        result->first_failure = result->done;
        cuplug_get_shortage(&result->shortage);
      }
      if (stop_at_failure) return answer;
    } else if (step == 0) {
      uint64_t released;
      int answer = cuplug_release_cached(allocator, &released);
      if (answer != CUPLUG_OK) return answer;
    } else if (step < CUPLUG_LIMITS) {
      cuplug_allocator_set_memory_limit(allocator, step == INT64_MIN ? UINT64_MAX : uint64_t(step) - (uint64_t(1) << 63));
    } else {
      int64_t number = -step - 1;
      cuplug_block *block = blocks[number];
      if (block == nullptr) continue;
      blocks[number] = nullptr;
      int answer = cuplug_free(allocator, block, 0);
      if (answer != CUPLUG_OK) return answer;
    }
  }
  return CUPLUG_OK;
}

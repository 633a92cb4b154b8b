/* The functions of cuplug_allocator.h that belong to an allocator. */
#include <cstdio>
#include <memory>

#include "allocator.h"
#include "last_error.h"
#include "options.h"

#define EXPORT __attribute__((visibility("default")))

namespace {

thread_local char last_error[256] = "";

cuplug::Allocator &core(cuplug_allocator *allocator) { return *static_cast<cuplug::Allocator *>(allocator); }
const cuplug::Allocator &core(const cuplug_allocator *allocator) {
  return *static_cast<const cuplug::Allocator *>(allocator);
}

/* CUPLUG_INVALID if one of these pointers is null, which no function takes; else what `call` answers. */
template <class Call, class... Pointers>
inline int given(Call call, Pointers *...pointers) {
  if (((pointers == nullptr) || ...)) {
    cuplug::set_last_error("a pointer is null");
    return CUPLUG_INVALID;
  }
  return call();
}

/* Whether an upstream has all that is not said to be null at times. */
bool is_whole(const cuplug_upstream &table) {
  const bool has_pages = table.reserve_range && table.free_range && table.create_page && table.release_page &&
                         table.map && table.set_access && table.unmap;
  return table.reserve && table.release && table.memory_info && table.fence && table.fence_done && table.fence_wait &&
         table.fence_drop && table.granularity != 0 && (table.page_granularity == 0 || has_pages);
}

}  // namespace

void cuplug::record(cuplug_allocator *allocator, const EventTarget *target) { core(allocator).events().record(target); }

void cuplug::set_last_error(const char *sentence) { std::snprintf(last_error, sizeof last_error, "%s", sentence); }

extern "C" {

EXPORT int cuplug_allocator_create(const char *strategy, const cuplug_option *options, size_t count,
                                   const cuplug_upstream *upstream, cuplug_allocator **made) {
  if (strategy == nullptr || upstream == nullptr || made == nullptr || (options == nullptr && count != 0)) {
    cuplug::set_last_error("a pointer is null");
    return CUPLUG_INVALID;
  }
  for (size_t number = 0; number < count; ++number)
    if (options[number].name == nullptr || options[number].value == nullptr) {
      cuplug::set_last_error("the name or the value of an option is null");
      return CUPLUG_INVALID;
    }
  if (!is_whole(*upstream)) {
    cuplug::set_last_error("a function of the upstream is null, or its granularity is 0");
    return CUPLUG_INVALID;
  }
  try {
    *made = cuplug::make_allocator(strategy, options, count, *upstream);
    return CUPLUG_OK;
  } catch (const cuplug::Invalid &error) {
    cuplug::set_last_error(error.message.c_str());
    return CUPLUG_INVALID;
  } catch (const cuplug::Stopped &stopped) {
    return stopped.answer;
  } catch (const std::bad_alloc &) {
    return CUPLUG_NO_HOST_MEMORY;
  }
}

EXPORT void cuplug_allocator_destroy(cuplug_allocator *allocator) {
  if (allocator != nullptr) delete &core(allocator);
}

EXPORT const char *cuplug_last_error(void) { return last_error; }

EXPORT void cuplug_allocator_set_thread_hooks(cuplug_allocator *allocator, const cuplug_thread_hooks *hooks) {
  if (allocator == nullptr) return;
  const bool none = hooks == nullptr || hooks->let_go == nullptr || hooks->take_again == nullptr;
  core(allocator).set_hooks(none ? cuplug_thread_hooks{nullptr, nullptr} : *hooks);
}

EXPORT int cuplug_allocator_keep_whole(cuplug_allocator *allocator) {
  return given([&] { return core(allocator).keep_segments_whole(); }, allocator);
}

EXPORT void cuplug_allocator_set_out_of_memory_hook(cuplug_allocator *allocator, cuplug_out_of_memory_hook hook,
                                                    void *context) {
  if (allocator != nullptr) core(allocator).set_out_of_memory_hook(hook, context);
}

EXPORT void cuplug_allocator_set_beyond_hook(cuplug_allocator *allocator, cuplug_beyond_hook hook, void *context) {
  if (allocator != nullptr) core(allocator).set_beyond_hook(hook, context);
}

EXPORT int cuplug_allocator_set_memory_limit(cuplug_allocator *allocator, uint64_t nbytes) {
  return given(
      [&] {
        core(allocator).set_memory_limit(nbytes);
        const bool none = nbytes == cuplug::NO_LIMIT;
        core(allocator).events().emit(cuplug::LIMIT, 0, 0, none ? 0 : nbytes, !none);
        return CUPLUG_OK;
      },
      allocator);
}

EXPORT int cuplug_allocator_set_guard(cuplug_allocator *allocator, uint64_t nbytes) {
  return given(
      [&] {
        if (nbytes > cuplug::MOST_BYTES) {
          cuplug::set_last_error("set_guard: no device has as much memory as is to be left behind each block");
          return int(CUPLUG_INVALID);
        }
        core(allocator).set_guard(nbytes);
        return int(CUPLUG_OK);
      },
      allocator);
}

EXPORT int cuplug_allocate(cuplug_allocator *allocator, uint64_t nbytes, uint64_t stream, uint64_t context,
                           cuplug_block **block) {
  return given([&] { return core(allocator).allocate(nbytes, stream, context, block); }, allocator, block);
}

EXPORT int cuplug_allocate_at(cuplug_allocator *allocator, uint64_t address, uint64_t nbytes, uint64_t requested,
                              uint64_t stream, uint64_t context, cuplug_block **block) {
  return given([&] { return core(allocator).allocate_at(address, nbytes, requested, stream, context, block); }, allocator, block);
}

EXPORT int cuplug_free(cuplug_allocator *allocator, cuplug_block *block, uint64_t context) {
  return given([&] { return core(allocator).free(block, context); }, allocator, block);
}

EXPORT int cuplug_record_stream(cuplug_allocator *allocator, cuplug_block *block, uint64_t stream, uint64_t context) {
  return given([&] { return core(allocator).record_stream(block, stream, context); }, allocator, block);
}

EXPORT uint64_t cuplug_block_address(const cuplug_block *block) { return block == nullptr ? 0 : block->address; }
EXPORT uint64_t cuplug_block_nbytes(const cuplug_block *block) { return block == nullptr ? 0 : block->nbytes; }
EXPORT uint64_t cuplug_block_requested(const cuplug_block *block) { return block == nullptr ? 0 : block->requested; }
EXPORT uint64_t cuplug_block_stream(const cuplug_block *block) { return block == nullptr ? 0 : block->stream; }
EXPORT int cuplug_block_is_live(const cuplug_block *block) {
  return block != nullptr && block->live.load(std::memory_order_acquire) != 0;
}
EXPORT void cuplug_block_set_user(cuplug_block *block, void *user) {
  if (block != nullptr) block->user = user;
}
EXPORT void *cuplug_block_user(const cuplug_block *block) { return block == nullptr ? nullptr : block->user; }

EXPORT cuplug_block *cuplug_find_block(cuplug_allocator *allocator, uint64_t address) {
  return allocator == nullptr ? nullptr : core(allocator).find(address);
}

EXPORT int cuplug_get_live_blocks(cuplug_allocator *allocator, cuplug_block **blocks, size_t most, size_t *count) {
  if (blocks == nullptr) most = 0; /* how many there are may be asked for alone */
  return given([&] { return core(allocator).live_blocks(blocks, most, count); }, allocator, count);
}

EXPORT int cuplug_share_pages(cuplug_allocator *allocator, uint64_t address, cuplug_shared_page *pages, size_t most,
                              size_t *count) {
  return given([&] { return core(allocator).share_pages(address, pages, most, count); }, allocator, pages, count);
}

EXPORT int cuplug_allocate_address(cuplug_allocator *allocator, uint64_t nbytes, uint64_t stream, uint64_t *address) {
  return given([&] { return core(allocator).allocate_address(nbytes, stream, address); }, allocator, address);
}

EXPORT int cuplug_free_address(cuplug_allocator *allocator, uint64_t address) {
  return given([&] { return core(allocator).free_address(address); }, allocator);
}

EXPORT int cuplug_release_cached(cuplug_allocator *allocator, uint64_t *released) {
  return given([&] { return core(allocator).release_cached(released); }, allocator, released);
}

EXPORT int cuplug_forget_stream(cuplug_allocator *allocator, uint64_t stream) {
  return given([&] { return core(allocator).forget_stream(stream); }, allocator);
}

EXPORT int cuplug_release_forgotten(cuplug_allocator *allocator, uint64_t stream, uint64_t *released) {
  return given([&] { return core(allocator).release_forgotten(stream, released); }, allocator, released);
}

EXPORT uint64_t cuplug_set_memory_tag(uint64_t tag) {
  uint64_t before = cuplug::memory_tag;
  cuplug::memory_tag = tag;
  return before;
}

EXPORT uint64_t cuplug_memory_tag(void) { return cuplug::memory_tag; }

EXPORT int cuplug_sleep(cuplug_allocator *allocator, uint64_t tag, const cuplug_keeper *keeper, uint64_t *nbytes) {
  return given(
      [&] {
        if (keeper == nullptr) return core(allocator).sleep(tag, keeper, nbytes);
        return given([&] { return core(allocator).sleep(tag, keeper, nbytes); }, keeper->save, keeper->restore,
                     keeper->wait, keeper->drop);
      },
      allocator, nbytes);
}

EXPORT int cuplug_wake(cuplug_allocator *allocator, uint64_t tag, uint64_t *nbytes) {
  return given([&] { return core(allocator).wake(tag, nbytes); }, allocator, nbytes);
}

EXPORT int cuplug_move(cuplug_allocator *allocator, uint64_t tag, int to_host, const cuplug_copier *copier,
                       uint64_t *nbytes) {
  return given([&] { return core(allocator).move(tag, to_host != 0, *copier, nbytes); }, allocator, copier, nbytes);
}

EXPORT int cuplug_get_sleeping(cuplug_allocator *allocator, cuplug_sleeping *found, size_t most, size_t *count) {
  if (found == nullptr) most = 0;
  return given([&] { return core(allocator).sleeping(found, most, count); }, allocator, count);
}

EXPORT int cuplug_allocator_close(cuplug_allocator *allocator) {
  return given([&] { return core(allocator).close(); }, allocator);
}
EXPORT void cuplug_allocator_abandon(cuplug_allocator *allocator) {
  if (allocator != nullptr) core(allocator).abandon();
}
EXPORT int cuplug_allocator_state(const cuplug_allocator *allocator) {
  return given([&] { return core(allocator).state(); }, allocator);
}
EXPORT int cuplug_allocator_has_pages(const cuplug_allocator *allocator) {
  return allocator != nullptr && core(allocator).has_pages();
}
EXPORT int cuplug_allocator_is_inside(const cuplug_allocator *allocator) {
  return allocator != nullptr && core(allocator).is_mine();
}

EXPORT void cuplug_get_shortage(cuplug_shortage *shortage) {
  if (shortage != nullptr) *shortage = cuplug::last_shortage();
}

EXPORT int cuplug_get_statistics(cuplug_allocator *allocator, cuplug_statistics *statistics) {
  return given([&] { return core(allocator).statistics(statistics); }, allocator, statistics);
}

EXPORT int cuplug_get_served(cuplug_allocator *allocator, cuplug_served *served) {
  if (allocator == nullptr || served == nullptr) return given([] { return CUPLUG_OK; }, allocator, served);
  const int answer = core(allocator).served(served);
  if (answer == CUPLUG_INVALID) cuplug::set_last_error("this allocator follows no plan");
  return answer;
}

EXPORT int cuplug_finish_planning(cuplug_allocator *allocator) {
  return given([&] { return core(allocator).finish_planning(); }, allocator);
}

EXPORT int cuplug_reset_peaks(cuplug_allocator *allocator) {
  return given([&] { return core(allocator).reset_peaks(); }, allocator);
}
EXPORT int cuplug_reset_accumulated(cuplug_allocator *allocator) {
  return given([&] { return core(allocator).reset_accumulated(); }, allocator);
}

EXPORT int cuplug_get_segments(cuplug_allocator *allocator, cuplug_map **map) {
  return given([&] { return core(allocator).segments(map); }, allocator, map);
}

EXPORT void cuplug_map_free(cuplug_map *map) { delete static_cast<cuplug::OwnedMap *>(map); }

EXPORT void cuplug_observe(cuplug_allocator *allocator, int on) {
  if (allocator != nullptr) core(allocator).observe(on != 0);
}

EXPORT void cuplug_listen(cuplug_allocator *allocator, cuplug_listener listener, void *context) {
  if (allocator != nullptr) core(allocator).listen(listener, context);
}

EXPORT void cuplug_record_beside(cuplug_allocator *allocator, cuplug_allocator *other) {
  if (allocator != nullptr && other != nullptr && allocator != other)
    core(allocator).events().record_beside(core(other).events());
}

EXPORT size_t cuplug_take_events(cuplug_allocator *allocator, cuplug_event *events, size_t most) {
  return allocator == nullptr || events == nullptr ? 0 : core(allocator).events().take(events, most);
}

EXPORT uint64_t cuplug_lost_events(const cuplug_allocator *allocator) {
  return allocator == nullptr ? 0 : core(allocator).events().lost();
}

}  // extern "C"

/* The functions of cuplug_allocator.h, found in the library that Python has loaded already. */
#pragma once

#include <cuplug_allocator.h>
#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace cuplug_torch {

#define CUPLUG_TORCH_FUNCTIONS(DO)                                                                                    \
  DO(allocate) DO(allocate_at) DO(free) DO(record_stream) DO(find_block) DO(block_address) DO(block_nbytes)             \
  DO(block_requested) DO(block_stream) DO(block_set_user) DO(block_user) DO(get_live_blocks) DO(release_cached)         \
  DO(forget_stream) DO(release_forgotten) DO(get_shortage) DO(get_statistics) DO(reset_peaks) DO(reset_accumulated) DO(get_segments)          \
  DO(map_free) DO(allocator_state) DO(allocator_has_pages) DO(listen) DO(cuda_capture) DO(cuda_last_result) DO(allocator_set_memory_limit) \
  DO(cuda_admit_peer) DO(cuda_upstream) DO(share_pages) DO(cuda_open_pages) DO(cuda_open_fabric) DO(record_beside) DO(cuda_close_pages) DO(allocator_create) DO(allocator_keep_whole) DO(allocator_set_thread_hooks) DO(allocator_close) DO(allocator_destroy)

struct Core {
#define CUPLUG_TORCH_MEMBER(name) decltype(&::cuplug_##name) name = nullptr;
  CUPLUG_TORCH_FUNCTIONS(CUPLUG_TORCH_MEMBER)
#undef CUPLUG_TORCH_MEMBER

  /* `path`: the library, which stays loaded. */
  explicit Core(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
#define CUPLUG_TORCH_FIND(name) find(library, "cuplug_" #name, name);
    CUPLUG_TORCH_FUNCTIONS(CUPLUG_TORCH_FIND)
#undef CUPLUG_TORCH_FIND
  }

 private:
  template <class Function>
  static void find(void *library, const char *name, Function &function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(std::string("cuplug's native allocators lack ") + name);
  }
};

}  // namespace cuplug_torch

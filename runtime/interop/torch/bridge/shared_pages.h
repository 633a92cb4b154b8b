/* Tensors of `expandable` in several processes: what a handle says of the pages behind them.
 *
 * Where these pages have one size, it is what PyTorch's own expandable segments send, so that a process with PyTorch's own
 * allocator can open it. Where they have several, which PyTorch has no words for, it is cuplug's own and needs cuplug at
 * the other end. Files are named by their numbers in the process that sends: who receives takes them over from there.
 * PyTorch's own allocator sends fabric handles in their place where the device has them. */
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "core.h"
#include "files.h"
#include "versions.h"

namespace cuplug_torch {

class SharedPages {
 public:
  static constexpr char PLAIN = 'c', EXPANDABLE = 'e'; /* PyTorch's names of a handle's kinds, after its version */
  static constexpr char SEVERAL_SIZES = 'p';           /* our own */

  explicit SharedPages(std::vector<cuplug_shared_page> pages) : process_(getpid()), pages_(std::move(pages)) {}

  /* From a handle. Whether it says anything of pages: else it is of another kind. */
  static bool speaks_of_pages(const std::string &handle) {
    return handle.size() > 2 && (handle[1] == EXPANDABLE || handle[1] == SEVERAL_SIZES) &&
           handle.size() != sizeof(cudaIpcMemHandle_t) && handle.size() != sizeof(cudaIpcMemHandle_t) + 2;
  }
  explicit SharedPages(const std::string &handle) {
    std::istringstream from(handle);
    TORCH_CHECK(from.get() <= HANDLE_VERSION, "cuplug: this tensor comes from a process with a later PyTorch");
    if (from.get() == SEVERAL_SIZES) {
      uint64_t count = 0;
      process_ = read<int64_t>(from);
      for (count = read<uint64_t>(from); count > 0 && from; --count) {
        uint64_t nbytes = read<uint64_t>(from);
        pages_.push_back({0, nbytes, int(read<int64_t>(from))});
      }
    } else {
      auto header = read<Header>(from);
      process_ = header.process;
      for (size_t count = header.count; count > 0 && from; --count) {
        if (header.has_files()) {
          pages_.push_back({0, header.page_nbytes, read<int>(from)});
        } else {
          pages_.push_back({0, header.page_nbytes, -1});
          fabric_.push_back(read<FabricHandle>(from));
        }
      }
    }
    TORCH_CHECK(from && !pages_.empty(), "cuplug: what was received for a shared tensor is not whole");
  }

  std::string handle() const {
    std::ostringstream to;
    to.put(HANDLE_VERSION);
    bool alike = std::all_of(pages_.begin(), pages_.end(),
                             [&](const cuplug_shared_page &page) { return page.nbytes == pages_[0].nbytes; });
    to.put(alike ? EXPANDABLE : SEVERAL_SIZES);
    if (alike) {
      write(to, Header::of(process_, pages_[0].nbytes, pages_.size()));
      for (const cuplug_shared_page &page : pages_) write(to, page.file);
    } else {
      write(to, int64_t(process_));
      write(to, uint64_t(pages_.size()));
      for (const cuplug_shared_page &page : pages_) {
        write(to, page.nbytes);
        write(to, int64_t(page.file));
      }
    }
    return to.str();
  }

  uint64_t nbytes() const {
    uint64_t sum = 0;
    for (const cuplug_shared_page &page : pages_) sum += page.nbytes;
    return sum;
  }

  /* Let other processes ask for their files. */
  void offer() const {
    for (const cuplug_shared_page &page : pages_) Offers::of_this_process().offer(page.file);
  }

  /* Map them here, for `device`. */
  void *open(const Core &core, DeviceIndex device) const {
    uint64_t address = 0;
    int answer = CUPLUG_OK;
    if (fabric_.empty()) {
      std::vector<cuplug_shared_page> ours = pages_;
      Files files(process_);
      for (cuplug_shared_page &page : ours) page.file = files.take(page.file);
      answer = core.cuda_open_pages(device, ours.data(), ours.size(), &address);
    } else {
      answer = core.cuda_open_fabric(device, pages_[0].nbytes, fabric_.data(), fabric_.size(), &address);
    }
    TORCH_CHECK(answer == CUPLUG_OK, "cuplug: another process's memory cannot be mapped on CUDA device ", int(device),
                ": CUDA error ", core.cuda_last_result());
    return reinterpret_cast<void *>(address);
  }

 private:
  struct FabricHandle { /* CUmemFabricHandle */
    char bytes[64];
  };
  /* PyTorch's ShareHeader. */
  struct Header {
    pid_t process;
    size_t page_nbytes, count;
#if CUPLUG_TORCH_VERSION >= 213
    int kind; /* 1: files, 2: fabric handles */
    bool has_files() const { return kind != 2; }
#else
    bool has_files() const { return true; }
#endif
    static Header of(pid_t process, size_t page_nbytes, size_t count) {
      Header header;
      std::memset(&header, 0, sizeof header); /* with what lies between: equal handles are one mapping */
      header.process = process;
      header.page_nbytes = page_nbytes;
      header.count = count;
#if CUPLUG_TORCH_VERSION >= 213
      header.kind = 1;
#endif
      return header;
    }
  };
  static constexpr char HANDLE_VERSION = CUPLUG_TORCH_VERSION >= 213 ? 3 : 2;

  template <class Value>
  static void write(std::ostream &to, const Value &value) {
    to.write(reinterpret_cast<const char *>(&value), sizeof value);
  }
  template <class Value>
  static Value read(std::istream &from) {
    Value value{};
    from.read(reinterpret_cast<char *>(&value), sizeof value);
    return value;
  }

  pid_t process_ = 0;
  std::vector<cuplug_shared_page> pages_;
  std::vector<FabricHandle> fabric_; /* in place of files, where the sender has PyTorch's own allocator and a fabric */
};

}  // namespace cuplug_torch

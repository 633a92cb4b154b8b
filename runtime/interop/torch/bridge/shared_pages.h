/* Tensors of `expandable` in several processes: what a handle says of the pages behind them.
 *
 * Where these pages have one size, it is what PyTorch's own expandable segments send, so that a process with PyTorch's own
 * allocator can open it. Where they have several, which PyTorch has no words for, it is cuplug's own and needs cuplug at
 * the other end. Files are named by their numbers in the process that sends: who receives takes them over from there. */
#ifndef CUPLUG_TORCH_SHARED_PAGES_H
#define CUPLUG_TORCH_SHARED_PAGES_H

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "core.h"
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
      TORCH_CHECK(header.has_files(), "cuplug: this tensor is shared by a fabric handle, which cannot be opened here");
      for (size_t count = header.count; count > 0 && from; --count)
        pages_.push_back({0, header.page_nbytes, read<int>(from)});
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

  /* Map them here, for `device`. */
  void *open(const Core &core, DeviceIndex device) const {
    std::vector<cuplug_shared_page> ours = pages_;
    Files files(process_);
    for (cuplug_shared_page &page : ours) page.file = files.take(page.file);
    uint64_t address = 0;
    int answer = core.cuda_open_pages(device, ours.data(), ours.size(), &address);
    TORCH_CHECK(answer == CUPLUG_OK, "cuplug: another process's memory cannot be mapped on CUDA device ", int(device),
                ": CUDA error ", core.cuda_last_result());
    return reinterpret_cast<void *>(address);
  }

 private:
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

  /* Files of another process, taken over for as long as this lives. */
  class Files {
   public:
    explicit Files(pid_t process) : process_(process), handle_(int(syscall(PIDFD_OPEN, process, 0))) {
      if (handle_ < 0) fail("cannot be reached");
    }
    Files(const Files &) = delete;
    Files &operator=(const Files &) = delete;
    ~Files() {
      for (int file : taken_) close(file);
      close(handle_);
    }

    int take(int file) {
      taken_.reserve(taken_.size() + 1);
      int ours = int(syscall(PIDFD_GETFD, handle_, file, 0));
      if (ours < 0) fail("does not hand over the files of its memory");
      taken_.push_back(ours);
      return ours;
    }

   private:
    /* Of the kernel, since 5.6; the same on all machines. Older C libraries have no names for them. */
    static constexpr long PIDFD_OPEN = 434, PIDFD_GETFD = 438;

    [[noreturn]] void fail(const char *what) const {
      int code = errno;
      TORCH_CHECK(false, "cuplug: process ", process_, ", which shares this tensor, ", what, ": ", std::strerror(code),
                  code == EPERM ? " (as for debuggers: a container needs --cap-add=SYS_PTRACE)" : "",
                  ". Allocate what is shared after "
                  "torch.cuda.memory._set_allocator_settings('expandable_segments:False') there, or choose caching");
    }

    const pid_t process_;
    const int handle_;
    std::vector<int> taken_;
  };

  pid_t process_ = 0;
  std::vector<cuplug_shared_page> pages_;
};

}  // namespace cuplug_torch
#endif

/* Events on their way into a trace file: each thread writes its own, and waits for none. */
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "allocators/native/cuplug_allocator.h"
#include "allocators/native/events.h"

/* Variables of a thread, reached without a call. glibc keeps room for a few of them in libraries that are loaded late. */
#if defined(__GLIBC__)
#define CUPLUG_LOG_LOCAL __attribute__((tls_model("initial-exec"))) thread_local
#else
#define CUPLUG_LOG_LOCAL thread_local
#endif

namespace cuplug {

/* A trace file that is being written, with the format of plugins/tracing/format.py.
 *
 * The file itself, mapped into memory, is where events go at once: whatever kills the process, the kernel keeps what was
 * written, and there is no buffer that could be full, nor a thread that empties it. Places are handed out by one atomic
 * counter, which Python's writer shares for its names and stacks. Only where the file has to grow, once in 20,480
 * events and ahead of time, a thread calls the kernel; another that needs the same part meanwhile waits for it. Nobody
 * else lets the file grow, Python's writer neither, since what it grows by is written, as zeros.
 *
 * One that a full disk has cut off, a closed one, and any one in a forked child (the file is the parent's) take no
 * events. Nothing here knows the interpreter. Another thread may be about to write, as long as there is an allocator
 * that was ever told of the log: they share it. */
class TraceLog {
 public:
  /* Over a copy of `file`, whose records begin at `start`. Throws std::bad_alloc. */
  static std::shared_ptr<TraceLog> make(int file, uint64_t start);
  TraceLog(const TraceLog &) = delete;
  TraceLog &operator=(const TraceLog &) = delete;

  void append(const cuplug_event &event, uint8_t device);
  /* What an allocator is told, which then keeps the log. */
  static EventTarget target(const std::shared_ptr<TraceLog> &log, uint8_t device);

  /* A place for a record of Python's, in bytes from the file's begin. It is not to be used once the log is closed. */
  uint64_t take_shortcut();
  /* The number of a thread in the trace, as its first event gets it: numbers follow the order of those. */
  uint32_t thread_number(uint64_t identity);
  /* What a thread is called, told before its first event; those of which nobody knows are "unknown thread". */
  void name_thread(uint64_t identity, const char *name);
  bool knows_this_thread() const { return current_.serial == serial_; }

  /* Let the file have `size` bytes at least, with the disk space taken now: a map of a file with holes would end in a bus
   * error when the disk is full. The errno of what failed, or 0. */
  int grow(uint64_t size);
  /* Take no more events. Answers where the records end, the same each time. */
  uint64_t close();
  /* The errno of what cut the trace off; 0 while nothing has. */
  int error() const { return error_.load(std::memory_order_relaxed); }
  bool is_closed() const { return (next_.load(std::memory_order_relaxed) & CLOSED) != 0; }

  static constexpr uint64_t RECORD = 48, WINDOW = 20480 * RECORD; /* bytes; writer.py has the same window */

 private:
  struct alignas(64) Share { /* of one thread in what was dealt with: a sum that nobody else writes */
    std::atomic<uint64_t> done{0};
  };
  struct Current { /* the calling thread's number in the log that it wrote to last, and its share there */
    uint64_t serial; /* of that log, which may be gone by now */
    uint32_t number;
    Share *share;
  };
  static constexpr uint64_t CLOSED = uint64_t{1} << 63;
  static constexpr size_t MOST_WINDOWS = 1 << 16, TABLE = MOST_WINDOWS * sizeof(std::atomic<char *>);

  TraceLog(int file, uint64_t start);
  ~TraceLog();
  bool is_elsewhere() const; /* whether this process was forked from the one that made the log */
  char *window(uint64_t number);
  char *map(uint64_t number);
  int extend(uint64_t size);
  void cut_off(int error);
  template <class Fill>
  void write(uint64_t last, Fill fill);
  uint64_t count_done();
  void drop_windows();
  void write_piece(uint8_t kind, uint32_t number, const std::string &text);

  std::atomic<uint64_t> next_; /* the next record's place, with CLOSED once it is closed */
  std::atomic<uint64_t> done_; /* how many of the places handed out were dealt with, in bytes, beside threads' shares */
  const uint64_t start_;
  uint64_t end_ = 0; /* where the records end, once it is closed */
  std::atomic<char *> *windows_ = nullptr; /* by number; null where a part is not mapped. Its memory is used as it is touched */
  std::atomic<int> error_{0};
  const uint64_t serial_; /* no other log of this process has it */
  const unsigned generation_; /* of forks, when it was made */
  std::mutex growing_;
  int file_;
  std::mutex naming_;
  std::map<uint64_t, uint32_t> numbers_;
  std::map<uint64_t, Share> shares_; /* by thread; they stay where they are */
  std::map<uint64_t, std::string> names_;
  static CUPLUG_LOG_LOCAL Current current_;
};

}  // namespace cuplug

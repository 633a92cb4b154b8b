#include "trace_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace cuplug {

namespace {

/* The records of plugins/tracing/format.py. The last eight bytes, with the kind, are stored at once and last: a record
 * whose kind is zero was not written. */
struct EventRecord {
  uint64_t time, address, nbytes, requested, stream, last;
};
struct Piece {
  char text[40];
  uint64_t last;
};
static_assert(sizeof(EventRecord) == TraceLog::RECORD && sizeof(Piece) == TraceLog::RECORD, "the format's records");

/* A number of four bytes, one of two, one of one, and the kind, as they follow one another. */
uint64_t last_of(uint32_t number, uint16_t shorter, uint8_t byte, uint8_t kind) {
  return number | uint64_t(shorter) << 32 | uint64_t(byte) << 48 | uint64_t(kind) << 56;
}

constexpr uint16_t LAST_PIECE = 0x8000;
constexpr uint8_t PIECE_THREAD = 243;
constexpr off_t COUNT_AT = 28;                   /* where the header has the count of records */
constexpr uint64_t CUT_OFF = UINT64_MAX - 1;     /* that count, in a file that is cut off */
constexpr int POPULATE_WRITE = 23;               /* MADV_POPULATE_WRITE, which older headers lack */
constexpr uint64_t AHEAD = TraceLog::WINDOW / 2; /* where in a window the next one is made */

std::atomic<unsigned> forks{0};
std::atomic<uint64_t> serials{1};

/* How often this process was forked from another, as far as it was asked before. */
unsigned count_forks() {
  static const int noticed = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(noticed);
  return forks.load(std::memory_order_relaxed);
}

void append_to(void *log, const cuplug_event &event, uint8_t device) {
  static_cast<TraceLog *>(log)->append(event, device);
}

}  // namespace

CUPLUG_LOG_LOCAL TraceLog::Current TraceLog::current_{0, 0, nullptr};

std::shared_ptr<TraceLog> TraceLog::make(int file, uint64_t start) {
  /* In a forked child another thread may have been changing what is the parent's. */
  return {new TraceLog(file, start), [](TraceLog *log) {
            if (!log->is_elsewhere()) delete log;
          }};
}

TraceLog::TraceLog(int file, uint64_t start)
    : next_(start),
      done_(start),
      start_(start),
      serial_(serials.fetch_add(1, std::memory_order_relaxed)),
      generation_(count_forks()),
      file_(fcntl(file, F_DUPFD_CLOEXEC, 0)) {
  void *table = mmap(nullptr, TABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) {
    ::close(file_);
    throw std::bad_alloc();
  }
  windows_ = static_cast<std::atomic<char *> *>(table);
}

TraceLog::~TraceLog() {
  close();
  if (windows_ != nullptr) drop_windows();
}

EventTarget TraceLog::target(const std::shared_ptr<TraceLog> &log, uint8_t device) { return {append_to, log, device}; }

/* --- events */

void TraceLog::append(const cuplug_event &event, uint8_t device) {
  if (is_elsewhere() || is_closed() || error() != 0) return;
  const uint32_t thread = current_.serial == serial_ ? current_.number : thread_number(event.thread);
  const uint64_t last = last_of(static_cast<uint32_t>(event.context), static_cast<uint16_t>(std::min(thread, uint32_t{0xFFFF})),
                                device, static_cast<uint8_t>(event.kind));
  /* Number by number: what was stored in parts just now and is copied in larger ones has to reach the cache first. */
  write(last, [&event](void *place) {
    EventRecord *record = static_cast<EventRecord *>(place);
    record->time = event.time_ns;
    record->address = event.address;
    record->nbytes = event.nbytes;
    record->requested = event.requested;
    record->stream = event.stream;
  });
}

/* Write a record that ends with `last`; `fill` writes what comes before. */
template <class Fill>
void TraceLog::write(uint64_t last, Fill fill) {
  const uint64_t place = next_.fetch_add(RECORD, std::memory_order_relaxed);
  if ((place & CLOSED) != 0) return;
  const uint64_t offset = (place - start_) % WINDOW;
  char *into = window((place - start_) / WINDOW);
  if (into != nullptr) {
    into += offset;
    fill(into);
    __atomic_store_n(reinterpret_cast<uint64_t *>(into + RECORD - sizeof last), last, __ATOMIC_RELEASE);
  }
  if (offset == AHEAD) window((place - start_) / WINDOW + 1);
  /* A locked addition would wait until the record has left for the cache. */
  if (current_.serial == serial_) {
    std::atomic<uint64_t> &done = current_.share->done;
    done.store(done.load(std::memory_order_relaxed) + RECORD, std::memory_order_release);
  } else {
    done_.fetch_add(RECORD, std::memory_order_release);
  }
}

/* How many of the places handed out were dealt with, in bytes. */
uint64_t TraceLog::count_done() {
  std::lock_guard<std::mutex> guard(naming_);
  uint64_t sum = done_.load(std::memory_order_acquire);
  for (const auto &[thread, share] : shares_) sum += share.done.load(std::memory_order_acquire);
  return sum;
}

uint64_t TraceLog::take_shortcut() {
  const uint64_t place = next_.fetch_add(RECORD, std::memory_order_relaxed);
  if ((place & CLOSED) == 0) done_.fetch_add(RECORD, std::memory_order_relaxed); /* it is Python's to write there */
  return place & ~CLOSED;
}

/* --- threads */

uint32_t TraceLog::thread_number(uint64_t identity) {
  std::string to_tell;
  bool is_new = false;
  uint32_t number;
  Share *share;
  {
    std::lock_guard<std::mutex> guard(naming_);
    share = &shares_[identity];
    auto found = numbers_.find(identity);
    is_new = found == numbers_.end();
    number = is_new ? static_cast<uint32_t>(numbers_.size()) : found->second;
    if (is_new) {
      auto name = names_.find(identity);
      to_tell = name == names_.end() ? "unknown thread" : name->second;
      numbers_[identity] = number;
    }
  }
  if (is_new) write_piece(PIECE_THREAD, std::min(number, uint32_t{0xFFFF}), to_tell);
  if (identity == static_cast<uint64_t>(pthread_self())) current_ = {serial_, number, share};
  return number;
}

void TraceLog::name_thread(uint64_t identity, const char *name) {
  std::lock_guard<std::mutex> guard(naming_);
  names_[identity] = name;
}

/* One entry of the side table. Other records may come between its pieces. */
void TraceLog::write_piece(uint8_t kind, uint32_t number, const std::string &text) {
  constexpr size_t MOST = sizeof(Piece::text);
  for (size_t at = 0; at == 0 || at < text.size(); at += MOST) {
    const size_t length = std::min(MOST, text.size() - at);
    const size_t marked = length | (at + MOST >= text.size() ? LAST_PIECE : 0);
    write(last_of(number, static_cast<uint16_t>(marked), 0, kind),
          [&](void *piece) { std::memcpy(static_cast<Piece *>(piece)->text, text.data() + at, length); });
  }
}

/* --- the file */

bool TraceLog::is_elsewhere() const { return forks.load(std::memory_order_relaxed) != generation_; }

char *TraceLog::window(uint64_t number) {
  if (number >= MOST_WINDOWS) {
    cut_off(EFBIG);
    return nullptr;
  }
  char *found = windows_[number].load(std::memory_order_acquire);
  return found != nullptr ? found : map(number);
}

char *TraceLog::map(uint64_t number) {
  std::lock_guard<std::mutex> guard(growing_);
  char *found = windows_[number].load(std::memory_order_acquire);
  if (found != nullptr || error() != 0 || file_ < 0) return found;
  const uint64_t from = start_ + number * WINDOW;
  const int failed = extend(from + WINDOW);
  if (failed != 0) {
    cut_off(failed);
    return nullptr;
  }
  void *made = mmap(nullptr, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, file_, static_cast<off_t>(from));
  if (made == MAP_FAILED) {
    cut_off(errno);
    return nullptr;
  }
  /* For speed too: pages that are entered into this process's table one by one, as events find them missing, take longer
   * than the events; all at once they take half. An older kernel refuses. */
  madvise(made, WINDOW, POPULATE_WRITE);
  windows_[number].store(static_cast<char *>(made), std::memory_order_release);
  /* What was written stays in the kernel's hands; this process need not count it as its own memory. */
  if (number >= 3) {
    char *older = windows_[number - 3].load(std::memory_order_acquire);
    if (older != nullptr) madvise(older, WINDOW, MADV_DONTNEED);
  }
  return static_cast<char *>(made);
}

int TraceLog::grow(uint64_t size) {
  std::lock_guard<std::mutex> guard(growing_);
  return extend(size);
}

/* The same, with `growing_` held. */
int TraceLog::extend(uint64_t size) {
  struct stat now;
  if (fstat(file_, &now) != 0) return errno;
  uint64_t has = static_cast<uint64_t>(now.st_size);
  if (has >= size) return 0;
  int failed;
  do {
    failed = posix_fallocate(file_, static_cast<off_t>(has), static_cast<off_t>(size - has));
  } while (failed == EINTR);
  const bool is_taken = failed == 0;
  if (!is_taken && failed != EINVAL && failed != EOPNOTSUPP && failed != ENOSYS) return failed;
  /* Where the space is taken already, this is for speed: a page that the first event finds missing costs the kernel 3
   * microseconds, and all of them at once, in large folios, 0.7 microseconds each. */
  static char zeros[WINDOW];
  while (has < size) {
    const ssize_t written = pwrite(file_, zeros, std::min<uint64_t>(sizeof zeros, size - has), static_cast<off_t>(has));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return is_taken ? 0 : written < 0 ? errno : ENOSPC;
    has += static_cast<uint64_t>(written);
  }
  return 0;
}

/* Note in the file that events are missing from here on. */
void TraceLog::cut_off(int error) {
  int none = 0;
  if (!error_.compare_exchange_strong(none, error)) return;
  if (file_ >= 0 && pwrite(file_, &CUT_OFF, sizeof CUT_OFF, COUNT_AT) < 0) return; /* the trace is not closed, at least */
}

uint64_t TraceLog::close() {
  const uint64_t end = next_.fetch_or(CLOSED, std::memory_order_acq_rel);
  if ((end & CLOSED) != 0 || is_elsewhere()) return end_;
  end_ = end;
  bool is_quiet = count_done() == end;
  for (int tries = 0; tries < 1000 && !is_quiet; ++tries, is_quiet = count_done() == end) sched_yield();
  std::lock_guard<std::mutex> guard(growing_);
  if (is_quiet) drop_windows(); /* else a thread may be writing there yet */
  ::close(file_);
  file_ = -1;
  return end_;
}

/* Once nobody writes there any more, and none will. */
void TraceLog::drop_windows() {
  const size_t windows = static_cast<size_t>((end_ - start_) / WINDOW) + 2;
  for (size_t number = 0; number < std::min(windows, MOST_WINDOWS); ++number) {
    char *mapped = windows_[number].load(std::memory_order_relaxed);
    if (mapped != nullptr) munmap(mapped, WINDOW);
  }
  munmap(windows_, TABLE);
  windows_ = nullptr;
}

}  // namespace cuplug

/* The interpreter's lock, where there is an interpreter, and what becomes of daemon threads when it ends.
 *
 * A thread that asks for the lock once the interpreter ends is ended there (before Python 3.14), by an exit that unwinds its
 * stack. Functions of PyTorch let go of the lock while they work and take it again in a destructor: the unwinding must not
 * pass that, and the process ends by std::terminate. So a daemon thread is kept in here, where it holds no lock, from the
 * time that the interpreter exits until the process is gone. Later Pythons keep such threads likewise. */
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace cuplug_torch {

class InterpreterLock {
 public:
  /* What `take_again` takes; null where this thread does not hold the lock. */
  static void *let_go() {
    static auto *const holds = function<int()>("PyGILState_Check");
    static auto *const save = function<void *()>("PyEval_SaveThread");
    return holds != nullptr && save != nullptr && holds() && !is_finalising() ? save() : nullptr;
  }
  static void take_again(void *held) noexcept {
    static auto *const restore = function<void(void *)>("PyEval_RestoreThread");
    try {
      restore(held);
    } catch (...) { /* the unwinding of a thread that is ended: it stops here */
      wait_for_the_end();
    }
  }
  static bool is_finalising() {
    static auto *const asked = function<int()>("Py_IsFinalizing");
    static auto *const before_3_13 = function<int()>("_Py_IsFinalizing");
    return asked != nullptr ? asked() != 0 : before_3_13 != nullptr && before_3_13() != 0;
  }
  [[noreturn]] static void wait_for_the_end() {
    for (;;) pause();
  }

 private:
  template <class Signature>
  static Signature *function(const char *name) {
    return reinterpret_cast<Signature *>(dlsym(RTLD_DEFAULT, name));
  }
};

/* The threads that ask for memory, and how many of a thread's calls are under way. Only the thread writes that, without an
 * atomic read and write: each allocation does so. Another thread may see it late. */
class AskingThread {
 public:
  AskingThread() {
    std::lock_guard<std::mutex> lock(all().mutex);
    all().threads.push_back(this);
  }
  ~AskingThread() {
    std::lock_guard<std::mutex> lock(all().mutex);
    auto &threads = all().threads;
    threads.erase(std::find(threads.begin(), threads.end(), this));
  }
  AskingThread(const AskingThread &) = delete;
  static AskingThread &current() {
    static thread_local AskingThread thread;
    return thread;
  }
  void add(int change) { under_way_.store(under_way_.load(std::memory_order_relaxed) + change, std::memory_order_relaxed); }

  template <class Predicate>
  static size_t count_under_way(Predicate counts) {
    std::lock_guard<std::mutex> lock(all().mutex);
    return size_t(std::count_if(all().threads.begin(), all().threads.end(), [&](const AskingThread *one) {
      return one->under_way_.load(std::memory_order_relaxed) != 0 && counts(one->thread_);
    }));
  }

 private:
  struct All {
    std::mutex mutex; /* of the following */
    std::vector<AskingThread *> threads;
  };
  static All &all() {
    static All *const kept = new All; /* for ever: threads may end after the process's statics */
    return *kept;
  }
  const int thread_ = gettid();
  std::atomic<int> under_way_{0};
};

class Ending {
 public:
  /* A thread asks for memory. Where the interpreter exits, a daemon stays here, before the call or after it: a call of the
   * driver can take until then. */
  class Call {
   public:
    explicit Call(Ending &ending) : ending_(ending), thread_(AskingThread::current()) {
      thread_.add(1);
      ending_.keep_daemon();
    }
    ~Call() {
      ending_.keep_daemon();
      thread_.add(-1);
    }
    Call(const Call &) = delete;

   private:
    Ending &ending_;
    AskingThread &thread_;
  };

  bool has_begun() const { return begun_.load(std::memory_order_acquire); }

  /* The interpreter exits. Keep the threads `daemons` (as the system numbers them) from here on, and wait until each of them
   * is here, or no more come. While calls are under way, more may come: the driver ends with the process, and must not end
   * within a call. The caller holds no lock, so that they can come. Called once. */
  void begin(const std::vector<int> &daemons) {
    for (int thread : daemons) daemons_.push_back({thread});
    begun_.store(true, std::memory_order_release);
    auto is_daemon = [&](int thread) { return std::find(daemons.begin(), daemons.end(), thread) != daemons.end(); };
    std::unique_lock<std::mutex> lock(mutex_);
    auto until = Clock::now() + LONGEST;
    for (size_t before = 0; kept_ < daemons_.size(); before = kept_) {
      if (changed_.wait_for(lock, NO_MORE_COME, [&] { return kept_ > before; })) continue;
      if (AskingThread::count_under_way(is_daemon) <= kept_ || Clock::now() > until) break;
    }
    waits_.store(false, std::memory_order_release);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto NO_MORE_COME = std::chrono::milliseconds(50);
  static constexpr auto LONGEST = std::chrono::seconds(1);
  struct Daemon {
    int thread;
    bool was_kept = false; /* read and written by this thread alone */
  };

  void keep_daemon() {
    if (!has_begun()) return;
    auto is_this = [thread = gettid()](const Daemon &one) { return one.thread == thread; };
    auto daemon = std::find_if(daemons_.begin(), daemons_.end(), is_this);
    if (daemon == daemons_.end()) return;
    if (InterpreterLock::is_finalising()) InterpreterLock::wait_for_the_end();
    if (std::exchange(daemon->was_kept, true)) return;
    void *held = InterpreterLock::let_go();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++kept_;
    }
    changed_.notify_all();
    /* What exits may still join this thread, which then goes on. Where the exit takes longer than that, it may be ended in
     * PyTorch after all. */
    for (auto until = Clock::now() + LONGEST; Clock::now() < until; usleep(1000)) {
      if (InterpreterLock::is_finalising()) InterpreterLock::wait_for_the_end();
      if (waits_.load(std::memory_order_acquire)) until = Clock::now() + LONGEST;
    }
    if (held != nullptr) InterpreterLock::take_again(held);
  }

  std::vector<Daemon> daemons_; /* as they are before `begun_` is set */
  std::atomic<bool> begun_{false}, waits_{true};
  std::mutex mutex_; /* of the following */
  size_t kept_ = 0;
  std::condition_variable changed_;
};

}  // namespace cuplug_torch

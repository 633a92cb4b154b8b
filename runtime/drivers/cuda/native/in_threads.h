/* The same work on many things, in several threads: for calls of the driver that take the system long. */
#ifndef CUPLUG_IN_THREADS_H
#define CUPLUG_IN_THREADS_H

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>

namespace cuplug {

constexpr size_t MOST_THREADS = 16;

/* Call `work` with each number below `count`, in up to 16 threads, of which the calling one is one; in it alone where the
 * system gives no more. `work` throws nothing. Threads take no signals, so that handlers run where they would without. */
template <class Work>
void in_threads(size_t count, const Work &work) {
  std::atomic<size_t> next{0};
  auto take_part = [&] {
    for (size_t at = next.fetch_add(1); at < count; at = next.fetch_add(1)) work(at);
  };
  const size_t useful = std::min({count, MOST_THREADS, size_t(std::max(1u, std::thread::hardware_concurrency()))});
  std::array<std::thread, MOST_THREADS> others;
  size_t started = 0;
  sigset_t all, before;
  sigfillset(&all);
  const bool masked = pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
  try {
    while (started + 1 < useful) {
      others[started] = std::thread(take_part);
      ++started;
    }
  } catch (const std::exception &) { /* those that are there do it */
  }
  if (masked) pthread_sigmask(SIG_SETMASK, &before, nullptr);
  take_part();
  for (size_t at = 0; at < started; ++at) others[at].join();
}

}  // namespace cuplug
#endif

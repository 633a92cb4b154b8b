/* A trace's log that threads write into, each for the first time, while it is closed: log_and_threads FILE ROUNDS. */
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "plugins/tracing/native/trace_log.h"

int main(int, char **arguments) {
  for (int round = 0; round < std::atoi(arguments[2]); ++round) {
    const int file = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, 4096) != 0) return 1;
    auto log = cuplug::TraceLog::make(file, 4096);
    std::vector<std::thread> threads;
    for (int number = 0; number < 6; ++number) {
      threads.emplace_back([log, number] {
        const cuplug::EventTarget target = cuplug::TraceLog::target(log, uint8_t(number));
        cuplug_event event{};
        event.kind = cuplug::ALLOCATE;
        event.thread = uint64_t(pthread_self());
        log->name_thread(event.thread, "a thread");
        for (int count = 0; count < 50; ++count) target.write(target.log.get(), event, target.device);
      });
    }
    for (int tries = 0; tries < round % 7 * 50; ++tries) std::this_thread::yield(); /* some have written by now, or none */
    if (round % 2 == 0) log->close();
    log->take_shortcut();
    log.reset(); /* the threads share it */
    for (std::thread &thread : threads) thread.join();
    close(file);
  }
  std::puts("went well");
}

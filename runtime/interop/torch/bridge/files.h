/* Files of another process's memory, for who maps it: taken by number, by the kernel's pidfd_getfd, or handed over by the
 * process itself where that is forbidden, as containers forbid it. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "versions.h"

namespace cuplug_torch {

/* A socket without a file, by which processes of one user and one network namespace meet. */
class Meeting {
 public:
  explicit Meeting(pid_t process) : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    address_.sun_family = AF_UNIX;
    int length = std::snprintf(address_.sun_path + 1, sizeof address_.sun_path - 1, "cuplug-pages-%ld", long(process));
    size_ = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + size_t(length));
  }
  Meeting(const Meeting &) = delete;
  explicit Meeting(const Meeting *with) : socket_(accept4(with->socket_, nullptr, nullptr, SOCK_CLOEXEC)) {}
  Meeting &operator=(const Meeting &) = delete;
  ~Meeting() {
    if (socket_ >= 0) close(socket_);
  }

  bool listen() {
    return socket_ >= 0 && bind(socket_, name(), size_) == 0 && ::listen(socket_, 64) == 0;
  }
  bool reach() { return socket_ >= 0 && connect(socket_, name(), size_) == 0 && is_the_same_user(); }
  bool is_the_same_user() {
    timeval most{10, 0}; /* nobody waits for ever for a process that was stopped */
    ucred theirs{};
    socklen_t size = sizeof theirs;
    return socket_ >= 0 && setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most) == 0 &&
           getsockopt(socket_, SOL_SOCKET, SO_PEERCRED, &theirs, &size) == 0 && theirs.uid == geteuid();
  }

  /* A number, and a file with it unless that is below 0. */
  bool send(int number, int file = -1) {
    Message message(&number);
    if (file < 0) message.header.msg_controllen = 0;
    else std::memcpy(CMSG_DATA(message.start()), &file, sizeof file);
    return sendmsg(socket_, &message.header, MSG_NOSIGNAL) == ssize_t(sizeof number);
  }
  bool receive(int *number, int *file = nullptr) {
    Message message(number);
    if (recvmsg(socket_, &message.header, MSG_CMSG_CLOEXEC) != ssize_t(sizeof *number)) return false;
    int taken = -1;
    if (message.header.msg_controllen != 0) std::memcpy(&taken, CMSG_DATA(CMSG_FIRSTHDR(&message.header)), sizeof taken);
    if (file != nullptr) *file = taken;
    else if (taken >= 0) close(taken);
    return true;
  }

 private:
  struct Message {
    explicit Message(int *number) : content{number, sizeof *number} {
      header.msg_iov = &content;
      header.msg_iovlen = 1;
      header.msg_control = room;
      header.msg_controllen = sizeof room;
    }
    cmsghdr *start() {
      cmsghdr *made = CMSG_FIRSTHDR(&header);
      made->cmsg_level = SOL_SOCKET;
      made->cmsg_type = SCM_RIGHTS;
      made->cmsg_len = CMSG_LEN(sizeof(int));
      return made;
    }
    iovec content;
    msghdr header{};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  };
  const sockaddr *name() const { return reinterpret_cast<const sockaddr *>(&address_); }

  const int socket_;
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

/* What this process hands over to others that ask: files that it has offered, and that are still what they were. A thread
 * of it waits for them from the first offer on. */
class Offers {
 public:
  static Offers &of_this_process() {
    static Offers *const kept = new Offers; /* for ever: the thread may run until the end */
    return *kept;
  }

  void offer(int file) {
    std::lock_guard<std::mutex> guard(mutex_);
    struct stat of {};
    if (fstat(file, &of) == 0) files_[file] = {of.st_dev, of.st_ino};
    if (process_ == getpid()) return;
    process_ = getpid();
    auto meeting = std::make_unique<Meeting>(process_); /* there before anybody hears of the file */
    if (!meeting->listen()) return; /* then pidfd_getfd has to do */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's threads */
    try {
      std::thread(&Offers::serve, this, std::move(meeting)).detach();
    } catch (const std::system_error &) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

 private:
  bool is_offered(int file) {
    std::lock_guard<std::mutex> guard(mutex_);
    struct stat of {};
    auto found = files_.find(file);
    return found != files_.end() && fstat(file, &of) == 0 && found->second == std::make_pair(of.st_dev, of.st_ino);
  }
  void serve(std::unique_ptr<Meeting> meeting) {
    for (;;) {
      Meeting with(meeting.get());
      if (!with.is_the_same_user()) continue;
      int file = -1;
      while (with.receive(&file))
        if (!with.send(file, is_offered(file) ? file : -1)) break;
    }
  }

  std::mutex mutex_;
  std::map<int, std::pair<dev_t, ino_t>> files_; /* by number: what they were */
  pid_t process_ = 0; /* whose thread waits: none in a fork's child */
};

/* Files of another process, taken over for as long as this lives. */
class Files {
 public:
  explicit Files(pid_t process) : process_(process), handle_(int(syscall(PIDFD_OPEN, process, 0))), meeting_(process) {}
  Files(const Files &) = delete;
  Files &operator=(const Files &) = delete;
  ~Files() {
    for (int file : taken_) close(file);
    if (handle_ >= 0) close(handle_);
  }

  int take(int file) {
    taken_.reserve(taken_.size() + 1);
    int ours = int(syscall(PIDFD_GETFD, handle_, file, 0));
    const int code = errno;
    if (ours < 0) ours = ask_for(file);
    TORCH_CHECK(ours >= 0, "cuplug: process ", process_, ", which shares this tensor, does not hand over the files of its memory: ",
                std::strerror(code), code == EPERM ? " (as for debuggers: a container needs --cap-add=SYS_PTRACE)" : "",
                "; nor does it answer from this network namespace. Allocate what is shared after "
                "torch.cuda.memory._set_allocator_settings('expandable_segments:False') there, or choose caching");
    taken_.push_back(ours);
    return ours;
  }

 private:
  /* Of the kernel, since 5.6; the same on all machines. Older C libraries have no names for them. */
  static constexpr long PIDFD_OPEN = 434, PIDFD_GETFD = 438;

  int ask_for(int file) {
    int number = file, ours = -1;
    if (!is_met_ && !meeting_.reach()) return -1;
    is_met_ = true;
    return meeting_.send(number) && meeting_.receive(&number, &ours) ? ours : -1;
  }

  const pid_t process_;
  const int handle_;
  Meeting meeting_;
  bool is_met_ = false;
  std::vector<int> taken_;
};

}  // namespace cuplug_torch

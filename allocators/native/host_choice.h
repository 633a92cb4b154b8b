/* Which blocks of an iteration lie on the host, where the device has no room for all (host_choice.py). */
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "policy.h"

namespace cuplug {

class HostChoice {
 public:
  /* `room` answers how many bytes more the device has for the allocator. */
  explicit HostChoice(std::function<uint64_t()> room) : room_(std::move(room)) {}

  /* Whether a request that comes now, with `device` bytes of the device in use, is to lie on the host. */
  bool wants(uint64_t nbytes, uint64_t device) const {
    return placed_ <= planned_ && is_chosen(key_of(nbytes)) && !is_valley(device + placed_ + older_);
  }
  /* Note a request that was served at `address`, with `device` bytes of the device in use before; whether it lies on the
   * host, and whether that is because the device had no room. Throws nothing. */
  void served(uint64_t address, uint64_t nbytes, uint64_t device, bool host, bool beyond);
  /* Note that a block is gone. */
  void freed(uint64_t address);

 private:
  struct Request {
    uint64_t key;  /* tells it apart from all others of the iteration, and is the same in the next */
    uint64_t nbytes;
    uint64_t demand; /* bytes in use with it, but for what was put on the host on purpose or before the iteration */
    uint64_t death;  /* how many requests there had been when it was freed; 0 while it lives */
  };
  struct Alive {
    uint64_t number;
    uint64_t on_host;
  };
  struct Candidate {
    uint64_t worth, helps, nbytes, life; /* `helps`: so many of its bytes are missing */
    size_t at, begin, end; /* its place in the iteration, and the parts through which it lives */
  };

  void note(uint64_t address, uint64_t nbytes, uint64_t device, bool host, bool beyond);
  uint64_t key_of(uint64_t nbytes) const;
  bool is_chosen(uint64_t key) const { return !chosen_.empty() && chosen_.count(key) != 0; }
  bool is_valley(uint64_t demand) const { return demand <= low_ + (std::max(high_, low_) - low_) / policy::VALLEY; }
  void come_by(uint64_t demand);
  void start_lap(bool anchored);
  void unchoose_lap();
  void choose();

  const std::function<uint64_t()> room_;
  std::unordered_set<uint64_t> chosen_;
  bool is_on_ = false;
  std::unordered_map<uint64_t, Alive> alive_; /* by address */
  uint64_t placed_ = 0, older_ = 0;           /* bytes of those on the host: of this iteration, and from before it */
  uint64_t planned_ = 0;                      /* bytes of what lives of this iteration and was chosen for the host */
  uint64_t low_ = 0, high_ = 0;
  uint64_t least_ = 0; /* since the latest visit to the valley, or the latest time that it was given up; 0 for nothing */
  uint64_t since_ = 0, longest_ = 0; /* requests since the latest visit to the valley, and the most between two */

  std::vector<Request> lap_;
  uint64_t start_ = 0;       /* the number of the first request in it */
  bool is_anchored_ = false; /* whether it began in the valley */
  uint64_t sum_ = 0;         /* of the sizes since then */
  uint64_t refused_ = 0;     /* the least that could not be in use on the device at once; 0 if all could */
  uint64_t most_on_device_ = 0, most_placed_ = 0;
};

}  // namespace cuplug

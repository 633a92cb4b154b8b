/* A tag that is asleep, and the contents of its blocks on the host (sleeping.py). */
#pragma once

#include <cstdint>
#include <map>

#include "upstream.h"

namespace cuplug {

/* What sleeps. Dropped, its copies are gone. */
class Sleeper {
 public:
  /* `keeper` may be null, for contents that are lost. */
  Sleeper(uint64_t tag, const cuplug_keeper *keeper) : tag(tag), keeps_(keeper != nullptr) {
    if (keeps_) keeper_ = *keeper;
  }
  Sleeper(const Sleeper &) = delete;
  Sleeper &operator=(const Sleeper &) = delete;
  ~Sleeper() {
    for (const auto &[address, copy] : copies_) keeper_.drop(keeper_.context, copy);
  }

  const uint64_t tag;

  bool keeps() const { return keeps_; }
  bool has(uint64_t address) const { return copies_.count(address) != 0; }
  /* Queue copying a block to the host. Throws OutOfMemory or Failed. */
  void save(uint64_t address, uint64_t nbytes);
  /* Queue copying all back. Throws Failed. */
  void restore();
  /* Wait until what was queued last is done. Throws Failed. */
  void wait();
  /* A block is gone. */
  void forget(uint64_t address);

 private:
  cuplug_keeper keeper_{};
  const bool keeps_;
  std::map<uint64_t, void *> copies_; /* by the addresses of blocks */
};

}  // namespace cuplug

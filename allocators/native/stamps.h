/* Tells whether the work that was queued on a stream before a free has passed, with few fences for many frees
 * (stamps.py). */
#pragma once

#include <cstdint>

#include "upstream.h"

namespace cuplug {

/* Numbers the frees on one stream in groups. One fence tells of a whole group, and at most one is on its way. */
class Stamps {
 public:
  Stamps(Upstream &upstream, uint64_t stream) : stream(stream), upstream_(upstream) {}

  const uint64_t stream;
  /* The work queued before every free of this number or a lower one has passed. */
  uint64_t passed = 0;

  /* Number a free. */
  uint64_t freed(uint64_t nbytes) {
    unfenced_ += nbytes;
    return now_;
  }
  /* Look after the fence; make one if `least` bytes or more have been freed since the last. Never blocks; throws
   * Failed. */
  void poll(uint64_t least) {
    if (fence_ && fence_.done()) has_passed();
    if (!fence_ && unfenced_ >= least) make_fence();
  }
  /* Block until the work before the frees numbered `stamp` has passed. Throws Failed. */
  void wait(uint64_t stamp) {
    while (passed < stamp) {
      if (!fence_) make_fence();
      if (!fence_) continue;
      fence_.wait();
      has_passed();
    }
  }
  /* The stream is about to be destroyed. Blocks of it that are freed later have been waited for. */
  void forget() {
    if (forgotten_) return;
    if (fence_ || passed < now_) {
      fence_ = upstream_.fence(stream);
      ++now_;
    }
    forgotten_ = true; /* the last step: broken off by upstream before, this is done again */
  }
  bool forgotten() const { return forgotten_; }
  /* Let go of the fence: nothing asks any more. */
  void drop() { fence_ = FenceRef(); }

 private:
  void make_fence() {
    if (forgotten_) { /* everything was fenced when the stream was destroyed */
      passed = now_;
    } else {
      fence_ = upstream_.fence_everything(stream);
      ++now_;
    }
    unfenced_ = 0;
  }
  void has_passed() {
    fence_ = FenceRef();
    passed = now_ - 1;
  }

  Upstream &upstream_;
  FenceRef fence_;        /* of the group before `now_` */
  uint64_t now_ = 1;      /* the number that frees get at present */
  uint64_t unfenced_ = 0; /* bytes freed since the latest fence was made */
  bool forgotten_ = false;
};

}  // namespace cuplug

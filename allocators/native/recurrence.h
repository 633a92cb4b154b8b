/* Tells whether a program asks for the same sizes in the same order again (recurrence.py). */
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "policy.h"

namespace cuplug {

class Recurrence {
 public:
  /* Note a request: some leave a mark. */
  void asked(uint64_t nbytes) {
    ++requests_;
    sum_ = 2 * sum_ + nbytes * FACTOR;
    if (sum_ >> (64 - policy::MARK_BITS) == 0) mark();
  }
  /* Start anew where `nbytes` in use at once are more than before: let no cycle begin before this moment. */
  void note_peak(uint64_t nbytes) {
    if (nbytes <= peak_) return;
    peak_ = nbytes;
    started_ = count();
    started_requests_ = requests_;
  }
  /* The most bytes in use at once, as far as they were noted. */
  uint64_t peak() const { return peak_; }
  /* Put it back: what was to come on top failed. Cycles still begin after that moment. */
  void set_peak(uint64_t nbytes) { peak_ = nbytes; }
  /* Whether the latest requests have come twice, in the same order, for the second time since the latest `start`. */
  bool repeats();
  /* The same, and what repeats is no part of something larger that has come but once. */
  bool repeats_as_a_whole() { return repeats() && larger_ == 0; }

  /* Whether the program has gone on for a whole cycle since the latest start, and not one as short as those of layers that
   * are alike. */
  bool has_repeated() {
    return repeats_as_a_whole() && cycle_ >= policy::LEAST_CYCLE && count() - started_ >= cycle_;
  }

  /* Whether it has repeated, or lasts, or has left no mark for as long. */
  bool goes_on() {
    if (count() == started_) return (requests_ - started_requests_) >> policy::MARK_BITS >= 2 * policy::LEAST_CYCLE;
    return has_repeated() || lasts();
  }

  /* Whether the program has gone on like this for two cycles since the latest `start`, or longer, if they are short. */
  bool lasts() { return repeats_as_a_whole() && count() - started_ >= 2 * std::max(cycle_, size_t(policy::LEAST_CYCLE)); }

  /* How many marks there have been. */
  uint64_t count() const { return forgotten_ + marked_; }

 private:
  static constexpr uint64_t FACTOR = 0x9E3779B97F4A7C15u;

  void mark();

  uint64_t sum_ = 0; /* of the sizes of about the last 50 requests: what is older has been shifted out */
  uint64_t requests_ = 0, forgotten_ = 0, looked_at_ = 0, started_ = 0, started_requests_ = 0, peak_ = 0;
  size_t marked_ = 0, cycle_ = 0, larger_ = 0; /* the latter two as of the latest look */
  /* as many as so many requests leave on average */
  std::vector<uint64_t> marks_ = std::vector<uint64_t>(policy::MOST_RECORDED >> policy::MARK_BITS);
};

}  // namespace cuplug

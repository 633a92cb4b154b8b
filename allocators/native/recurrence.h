/* Tells whether a program asks for the same sizes in the same order again, and how much memory went to and fro meanwhile
 * (recurrence.py). */
#ifndef CUPLUG_RECURRENCE_H
#define CUPLUG_RECURRENCE_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuplug {

class Recurrence {
 public:
  /* Note a request. */
  void asked(uint64_t nbytes) {
    sum_ = 2 * sum_ + nbytes * FACTOR;
    if (sum_ >> (64 - MARK_BITS) == 0) mark();
  }
  /* Let no cycle begin before this moment. */
  void start() { started_ = count(); }
  /* Note that a page has left an address. */
  void left(uint64_t address, uint64_t nbytes);
  /* Whether the latest requests have come twice, in the same order, for the second time since the latest `start`. */
  bool repeats() { return latest_cycle() != 0 && count() - latest_cycle() >= started_; }
  /* The same. `places` gets the addresses of all granules that pages have left within the latest such cycle, each once. */
  bool places_left(uint64_t granularity, std::vector<uint64_t> *places);

  uint64_t settled = 0; /* bytes granted a program beyond the rules, to let it come to rest */

 private:
  static constexpr uint64_t FACTOR = 0x9E3779B97F4A7C15u;
  static constexpr int MARK_BITS = 5;
  static constexpr size_t MOST_MARKS = 4096, MOST_LEFT = 256;
  struct Left {
    uint64_t count; /* how many marks there were */
    uint64_t address, nbytes;
  };

  void mark();
  uint64_t count() const { return forgotten_ + marked_; }
  uint64_t latest_cycle();

  uint64_t sum_ = 0; /* of the sizes of about the last 50 requests: what is older has been shifted out */
  uint64_t forgotten_ = 0, looked_at_ = 0, started_ = 0, cycle_ = 0;
  size_t marked_ = 0, left_count_ = 0;
  std::array<uint64_t, MOST_MARKS> marks_;
  std::array<Left, MOST_LEFT> left_;
};

}  // namespace cuplug
#endif

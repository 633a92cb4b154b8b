/* Free parts in order: first by size, then by address. */
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "block.h"

namespace cuplug {

__extension__ typedef unsigned __int128 Order; /* the size above the address */

inline Order order_of(uint64_t nbytes, uint64_t address) { return Order(nbytes) << 64 | address; }
inline Order order_of(const Block *block) { return order_of(block->nbytes, block->address); }

/* A piece of the order: some neighbours, in arrays that a search walks without looking at the parts themselves. */
struct Run {
  static constexpr unsigned MOST = 48;
  Order orders[MOST];
  Block *blocks[MOST];
  unsigned count = 0;
  Run *next_spare = nullptr;

  /* How many stand before `order`. */
  unsigned rank(Order order) const {
    const Order *from = orders;
    unsigned left = count;
    while (left > 1) {
      unsigned half = left / 2;
      from = from[half - 1] < order ? from + half : from;
      left -= half;
    }
    return unsigned(from - orders) + (left == 1 && *from < order);
  }
  bool is_behind_all(Order order) const { return count == 0 || orders[count - 1] < order; }
  /* Whether the last one, given this order, would be the last one still. */
  bool stays_last(Order order) const { return count == 1 || orders[count - 2] < order; }
  void open(unsigned at) {
    shift(at + 1, at, count - at);
    ++count;
  }
  void close(unsigned at) {
    --count;
    shift(at, at + 1, count - at);
  }
  /* `block` takes the place of the one at `at`, and then goes to its own. */
  void move(unsigned at, Order order, Block *block) {
    unsigned to = rank(order);
    if (to > at) {
      --to;
      shift(at, at + 1, to - at);
    } else {
      shift(to + 1, to, at - to);
    }
    set(to, order, block);
  }
  void set(unsigned at, Order order, Block *block) {
    orders[at] = order;
    blocks[at] = block;
  }

 private:
  void shift(unsigned to, unsigned from, unsigned how_many) {
    constexpr unsigned FEW = 8; /* for as many a call of memmove costs more than the moving */
    if (how_many > FEW) {
      std::memmove(orders + to, orders + from, how_many * sizeof(Order));
      std::memmove(blocks + to, blocks + from, how_many * sizeof(Block *));
      return;
    }
    const bool down = to < from;
    for (unsigned i = 0; i < how_many; ++i) {
      const unsigned at = down ? i : how_many - 1 - i;
      orders[to + at] = orders[from + at];
      blocks[to + at] = blocks[from + at];
      asm volatile("" ::: "memory"); /* else the compiler makes a call of memmove of it */
    }
  }
};
using Runs = Store<Run, 16>;

/* A sorted set of parts, in runs of up to `Run::MOST`. There is at least one; none is empty but the only one. */
class Sorted {
 public:
  /* A position; behind the last part if it is at the count of its run. */
  struct At {
    size_t run;
    unsigned at;
  };

  explicit Sorted(Runs &spare) : spare_(spare) {
    reserve(MARGIN);
    runs_.push_back(spare_.take());
    lasts_.push_back(0);
    settle();
    only_->count = 0;
  }
  Sorted(const Sorted &) = delete;
  Sorted &operator=(const Sorted &) = delete;
  ~Sorted() {
    for (Run *run : runs_) spare_.give(run);
  }

  /* Make sure that the next `count` insertions cannot fail. Up to MARGIN of them cannot, if there are as many spare
   * runs: for those the caller asks the store alone. */
  static constexpr size_t MARGIN = 2;
  void reserve(size_t count) {
    /* A run that was split or joined is split again only after half a run of insertions: of the runs there are, each may
     * be full, and every further split takes so many. */
    const size_t splits = std::min(count, spare_.given() + count / (Run::MOST / 2) + 1);
    spare_.reserve(splits);
    make_room(runs_used_ + splits);
  }

  bool empty() const { return only_ != nullptr && only_->count == 0; }

  /* The first part that does not stand before `order`. */
  At find(Order order) const {
    if (only_ != nullptr) return {0, only_->rank(order)};
    size_t run = run_of(order);
    return {run, runs_[run]->rank(order)};
  }
  Block *block(At at) const {
    const Run *run = run_at(at.run);
    return at.at < run->count ? run->blocks[at.at] : nullptr;
  }
  At first() const { return {0, 0}; }
  At next(At at) const {
    ++at.at;
    return at.at < run_at(at.run)->count || at.run + 1 == runs_used_ ? at : At{at.run + 1, 0};
  }

  /* What happens at an end of a single run, as it does where few parts are free, is done where this is called. */
  __attribute__((always_inline)) void insert(Block *block) {
    Order order = order_of(block);
    if (only_ != nullptr && only_->count < Run::MOST && only_->is_behind_all(order))
      only_->set(only_->count++, order, block);
    else
      insert_between(order, block);
  }
  __attribute__((always_inline)) void erase(Order order) {
    if (only_ != nullptr && only_->orders[only_->count - 1] == order)
      --only_->count;
    else if (only_ != nullptr && only_->orders[0] == order)
      only_->close(0);
    else
      erase_at(find(order));
  }

  /* `block` takes the place of what stood at the order `was`. */
  __attribute__((always_inline)) void replace(Order was, Block *block) {
    Order order = order_of(block);
    if (only_ != nullptr && only_->orders[only_->count - 1] == was && only_->stays_last(order))
      only_->set(only_->count - 1, order, block); /* the largest one shrinks or grows */
    else
      replace_between(was, order, block);
  }

 private:
  __attribute__((noinline)) void replace_between(Order was, Order order, Block *block) {
    At found = find(was);
    Run *run = run_at(found.run);
    bool above = found.at == 0 ? found.run == 0 || lasts_[found.run - 1] < order : run->orders[found.at - 1] < order;
    bool below = found.at + 1 < run->count ? order < run->orders[found.at + 1]
                                           : found.run + 1 == runs_used_ || order < runs_[found.run + 1]->orders[0];
    if (above && below) {
      run->set(found.at, order, block);
      if (only_ == nullptr) lasts_[found.run] = run->orders[run->count - 1];
    } else if (only_ != nullptr) {
      run->move(found.at, order, block);
    } else {
      erase_at(found);
      insert(block);
    }
  }

  Run *run_at(size_t at) const { return only_ != nullptr ? only_ : runs_[at]; }

  /* The run in which `order` stands or belongs. There are several. */
  size_t run_of(Order order) const {
    size_t from = 0, left = runs_used_ - 1; /* the last one takes what stands behind all */
    while (left > 0) {
      size_t half = left / 2;
      if (lasts_[from + half] < order) {
        from += half + 1;
        left -= half + 1;
      } else {
        left = half;
      }
    }
    return from;
  }

  __attribute__((noinline)) void insert_between(Order order, Block *block) {
    size_t found = only_ != nullptr ? 0 : run_of(order);
    Run *run = run_at(found);
    if (run->count == Run::MOST) {
      split(found);
      found = run_of(order);
      run = runs_[found];
    }
    unsigned at = run->rank(order);
    run->open(at);
    run->set(at, order, block);
    if (only_ == nullptr) lasts_[found] = run->orders[run->count - 1];
  }

  __attribute__((noinline)) void erase_at(At found) {
    Run *run = run_at(found.run);
    run->close(found.at);
    if (only_ != nullptr) return;
    if (run->count == 0) {
      leave(found.run);
    } else {
      lasts_[found.run] = run->orders[run->count - 1];
      size_t next = found.run + 1;
      if (next < runs_used_ && run->count + runs_[next]->count <= Run::MOST / 2) join(found.run);
    }
  }

  /* Move the upper half of a full run into a new one behind it. */
  void split(size_t found) {
    Run *run = runs_[found], *upper = spare_.take();
    unsigned kept = run->count / 2;
    upper->count = run->count - kept;
    std::memcpy(upper->orders, run->orders + kept, upper->count * sizeof(Order));
    std::memcpy(upper->blocks, run->blocks + kept, upper->count * sizeof(Block *));
    run->count = kept;
    runs_.insert(runs_.begin() + ptrdiff_t(found) + 1, upper);
    lasts_.insert(lasts_.begin() + ptrdiff_t(found) + 1, upper->orders[upper->count - 1]);
    lasts_[found] = run->orders[kept - 1];
    settle();
    try {
      make_room(runs_used_ + MARGIN);
    } catch (const std::bad_alloc &) { /* there is room for some yet, and the next time it is tried again */
    }
  }

  /* Take the next run into this one. */
  void join(size_t found) {
    Run *run = runs_[found], *upper = runs_[found + 1];
    std::memcpy(run->orders + run->count, upper->orders, upper->count * sizeof(Order));
    std::memcpy(run->blocks + run->count, upper->blocks, upper->count * sizeof(Block *));
    run->count += upper->count;
    lasts_[found] = run->orders[run->count - 1];
    leave(found + 1);
  }

  void leave(size_t found) {
    spare_.give(runs_[found]);
    runs_.erase(runs_.begin() + ptrdiff_t(found));
    lasts_.erase(lasts_.begin() + ptrdiff_t(found));
    settle();
  }

  void settle() {
    runs_used_ = runs_.size();
    only_ = runs_used_ == 1 ? runs_.front() : nullptr;
  }

  void make_room(size_t count) {
    if (count <= room_) return;
    runs_.reserve(count * 2);
    lasts_.reserve(count * 2);
    room_ = count * 2;
  }

  Run *only_ = nullptr; /* the run, while there is but one: as a rule */
  size_t runs_used_ = 0;
  size_t room_ = 0; /* how many runs there is room for */
  Runs &spare_;
  std::vector<Run *> runs_;
  std::vector<Order> lasts_; /* the last order in each run, while there are several */
};

}  // namespace cuplug

/* Free parts in order: first by size, then by address. */
#ifndef CUPLUG_SORTED_H
#define CUPLUG_SORTED_H

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
  void open(unsigned at) {
    std::memmove(orders + at + 1, orders + at, (count - at) * sizeof(Order));
    std::memmove(blocks + at + 1, blocks + at, (count - at) * sizeof(Block *));
    ++count;
  }
  void close(unsigned at) {
    --count;
    std::memmove(orders + at, orders + at + 1, (count - at) * sizeof(Order));
    std::memmove(blocks + at, blocks + at + 1, (count - at) * sizeof(Block *));
  }
  void set(unsigned at, Order order, Block *block) {
    orders[at] = order;
    blocks[at] = block;
  }
};
using Runs = Store<Run, 16>;

/* A sorted set of parts, in runs of up to `Run::MOST`. */
class Sorted {
 public:
  /* A position: `run` may be the one behind the last. */
  struct At {
    size_t run;
    unsigned at;
  };

  explicit Sorted(Runs &runs) : spare_(runs) {}
  Sorted(const Sorted &) = delete;
  Sorted &operator=(const Sorted &) = delete;
  ~Sorted() {
    for (Run *run : runs_) spare_.give(run);
  }

  /* Make sure that the next `count` insertions cannot fail. */
  void reserve(size_t count) {
    spare_.reserve(count);
    if (runs_.size() + count <= room_) return;
    runs_.reserve((runs_.size() + count) * 2);
    lasts_.reserve((runs_.size() + count) * 2);
    room_ = (runs_.size() + count) * 2;
  }

  bool empty() const { return runs_.empty(); }

  /* The first part that does not stand before `order`. */
  At find(Order order) const {
    size_t run = run_of(order);
    if (run == runs_.size()) return {run, 0};
    return {run, runs_[run]->rank(order)};
  }
  Block *block(At at) const { return at.run < runs_.size() ? runs_[at.run]->blocks[at.at] : nullptr; }
  Order order(At at) const { return runs_[at.run]->orders[at.at]; }
  At first() const { return {0, 0}; }
  At next(At at) const { return ++at.at < runs_[at.run]->count ? at : At{at.run + 1, 0}; }
  Block *last() const { return runs_.empty() ? nullptr : runs_.back()->blocks[runs_.back()->count - 1]; }

  void insert(Block *block) {
    Order order = order_of(block);
    if (runs_.empty()) {
      Run *run = spare_.take();
      run->count = 0;
      runs_.push_back(run);
      lasts_.push_back(order);
    }
    size_t found = std::min(run_of(order), runs_.size() - 1);
    Run *run = runs_[found];
    if (run->count == Run::MOST) {
      split(found);
      if (lasts_[found] < order) run = runs_[++found];
    }
    unsigned at = run->rank(order);
    run->open(at);
    run->set(at, order, block);
    lasts_[found] = run->orders[run->count - 1];
  }

  void erase(Order order) { erase_at(find(order)); }

  /* `block` takes the place of `was`, which stood at the order `before`. */
  void replace(Order before, Block *block) {
    At found = find(before);
    Run *run = runs_[found.run];
    Order order = order_of(block);
    bool above = found.at == 0 ? found.run == 0 || lasts_[found.run - 1] < order : run->orders[found.at - 1] < order;
    bool below = found.at + 1 < run->count ? order < run->orders[found.at + 1]
                                            : found.run + 1 == runs_.size() || order < runs_[found.run + 1]->orders[0];
    if (above && below) {
      run->set(found.at, order, block);
      lasts_[found.run] = run->orders[run->count - 1];
      return;
    }
    erase_at(found);
    insert(block);
  }

 private:
  size_t run_of(Order order) const {
    size_t from = 0, left = lasts_.size();
    if (left <= 1) return left == 1 && !(lasts_[0] < order) ? 0 : left;
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

  void erase_at(At found) {
    Run *run = runs_[found.run];
    run->close(found.at);
    if (run->count == 0)
      leave(found.run);
    else if (size_t next = found.run + 1; next < runs_.size() && run->count + runs_[next]->count <= Run::MOST / 2)
      join(found.run);
    else
      lasts_[found.run] = run->orders[run->count - 1];
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
    lasts_.insert(lasts_.begin() + ptrdiff_t(found), run->orders[kept - 1]);
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
  }

  Runs &spare_;
  std::vector<Run *> runs_;
  std::vector<Order> lasts_; /* the last order in each run */
  size_t room_ = 0;          /* how many runs both have room for */
};

}  // namespace cuplug
#endif

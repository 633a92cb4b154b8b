/* `planned`: a program that repeats itself gets the places that were worked out for it beforehand (planned.py). */
#ifndef CUPLUG_PLANNED_H
#define CUPLUG_PLANNED_H

#include <memory>
#include <vector>

#include "expandable.h"
#include "follower.h"

namespace cuplug {

/* As the constructor of PlannedAllocator. */
struct PlannedOptions {
  ExpandableOptions expandable;
  std::vector<Cycle> cycles; /* of this device */
};

/* The rules, and what holds between any two operations, stand in planned.py. */
class PlannedAllocator final : public ExpandableAllocator {
 public:
  PlannedAllocator(const cuplug_upstream &table, PlannedOptions options);

 protected:
  Block *take(uint64_t requested, uint64_t nbytes, uint64_t stream) override;
  void put(Block *block) override;
  uint64_t release_unused() override;
  void forget(uint64_t stream) override;
  const cuplug_served *served_by_plan() const override { return &served_; }
  std::vector<Space *> movable_spaces() const override;

 private:
  Block *span_at(Follower *follower, uint64_t offset, uint64_t nbytes);
  void map_range(Follower *follower);

  std::vector<std::unique_ptr<Follower>> followers_;
  Table<Follower> by_stream_number_;
  cuplug_served served_{};
  bool gives_up_ranges_ = false;
};

}  // namespace cuplug
#endif

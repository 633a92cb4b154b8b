/* `planned`: a program that repeats itself gets the places that were worked out for it beforehand (planned.py). */
#pragma once

#include <memory>
#include <vector>

#include "expandable.h"
#include "follower.h"
#include "learner.h"

namespace cuplug {

/* As the constructor of PlannedAllocator. */
struct PlannedOptions {
  ExpandableOptions expandable;
  std::vector<Cycle> cycles; /* of this device */
  size_t repetitions = 0;    /* how often a cycle has to come before it is planned; 0: nothing is learnt */
  bool at_once = false;      /* whether it is planned in the thread that asks, not in one beside it */
};

/* The rules, and what holds between any two operations, stand in planned.py. */
class PlannedAllocator final : public ExpandableAllocator {
 public:
  PlannedAllocator(const cuplug_upstream &table, PlannedOptions options);
  int finish_planning() override;

 protected:
  Block *take(uint64_t requested, uint64_t nbytes, uint64_t stream) override;
  Block *take_beyond(uint64_t requested, uint64_t nbytes, uint64_t stream) override;
  void put(Block *block) override;
  uint64_t release_unused() override;
  void forget(uint64_t stream) override;
  const cuplug_served *served_by_plan() const override { return &served_; }
  std::vector<Space *> movable_spaces(bool host) const override;

 private:
  Block *span_at(Follower *follower, uint64_t offset, uint64_t nbytes);
  void map_range(Follower *follower);
  void has_served(Block *span, uint64_t requested, Follower *follower, Learner *learner);
  Learner *learner_of(uint64_t stream);
  void take_up(uint64_t stream, std::unique_ptr<Follower> learned);
  void leave(uint64_t stream);

  std::vector<std::unique_ptr<Follower>> followers_;
  Table<Follower> by_stream_number_;
  const size_t repetitions_;
  const bool at_once_;
  uint32_t generation_ = 0;
  std::vector<std::unique_ptr<Learner>> learners_;
  Table<Learner> learner_by_stream_;
  cuplug_served served_{};
  bool gives_up_ranges_ = false;
};

}  // namespace cuplug

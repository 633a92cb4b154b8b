/* `expandable`: on virtual memory, where physical pages follow the live blocks (expandable.py). */
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "allocator.h"
#include "host_choice.h"
#include "pages.h"
#include "policy.h"
#include "recurrence.h"
#include "returning.h"
#include "sleeping.h"
#include "space.h"
#include "stamps.h"

namespace cuplug {

/* As the constructor of ExpandableAllocator. */
struct ExpandableOptions {
  bool follows_torch = false;
  uint64_t memory_limit = NO_LIMIT;
  uint64_t slack = policy::SLACK;
  uint64_t aliases = policy::ALIASES; /* at how many addresses a page stays mapped after it has moved away */
  uint64_t roundup_power2_divisions = 0;
  uint64_t host = 0;                  /* bytes of host memory for blocks for which the device has no room */
};

/* The rules, and what holds between any two operations, stand in expandable.py. */
class ExpandableAllocator : public Allocator {
 public:
  ExpandableAllocator(const cuplug_upstream &table, const ExpandableOptions &options);

 protected:
  Block *take(uint64_t requested, uint64_t nbytes, uint64_t stream) override;
  Block *take_beyond(uint64_t requested, uint64_t nbytes, uint64_t stream) override;
  Block *take_at(uint64_t address, uint64_t nbytes, uint64_t stream) override;
  void put(Block *block) override;
  uint64_t rounded(uint64_t nbytes) const override { return rounded_to_steps(nbytes, steps_); }
  uint64_t release_unused() override;
  void release_left(uint64_t stream) override;
  void release_beyond() override { give_back_free(movable_spaces(true)); }
  void release_all() override;
  void map_segments(std::vector<cuplug_segment> &segments, std::vector<cuplug_piece> &pieces) override;
  void pages_behind(const Block *block, std::vector<Page *> &pages) const override;
  void forget(uint64_t stream) override;
  void poll() override;

  /* --- sleeping.cpp */
  bool can_sleep() const override { return true; }
  uint64_t fall_asleep(uint64_t tag, const cuplug_keeper *keeper) override;
  uint64_t rouse(uint64_t tag) override;
  uint64_t needed(uint64_t tag) const override;
  std::vector<cuplug_sleeping> asleep() override;
  /* --- moving.cpp */
  uint64_t exchange(uint64_t tag, const cuplug_copier &copier, bool host) override;
  uint64_t to_move(uint64_t tag, bool host) const override;
  bool is_asleep(const Block *part) const override { return space_at(part)->asleep; }

  /* --- what `planned` builds on */

  using Spaces = std::vector<std::unique_ptr<Space>>;

  /* What belongs to one stream; a space is null until something was asked for in it. */
  struct Stream {
    std::shared_ptr<Stamps> stamps;
    Space *small = nullptr;
    Space *large = nullptr;
    Space *planned = nullptr;    /* what `planned` keeps apart */
    std::vector<Space *> tagged; /* in order of their tags, those of the device and for small blocks first */
    /* All of them that there are, in the order in which they are given up. */
    std::vector<Space *> all() const;
  };

  /* How the memory that an opening misses is to be had, where `creatable` bytes of it may be new. */
  struct Plan {
    Opening opening;
    uint64_t creatable = 0;
    std::vector<Move> moves;
    std::vector<Source> sources; /* the free pages that move; within a part, from its end on */
    uint64_t fresh = 0;          /* bytes of new pages */
    std::vector<Source> coarse;  /* free pages that are too large to move here */

    void begin();
    /* `page`, which lies in the free part `span`, is to stand at `address`. */
    void comes(uint64_t address, Block *span, Page *page);
    /* Put all in the order in which it is carried out. */
    void in_order();
  };

  Space *space_of(uint64_t stream, bool small, uint64_t tag) {
    Stream *found = is_latest(stream) ? latest_ : stream_made(stream);
    if (tag != 0) return tagged_space_of(found, small, tag);
    Space *space = small ? found->small : found->large;
    return space != nullptr ? space : first_space(found, small);
  }
  Space *first_space(Stream *stream, bool small);
  Space *tagged_space_of(Stream *stream, bool small, uint64_t tag);
  static uint64_t place_of(const Space *space);
  Space *new_space(Stream *stream, bool small, uint64_t tag);
  Stream *stream_made(uint64_t stream);
  Stream *stream_of(uint64_t stream);
  /* Whether a stream is the one used last: as a rule. */
  bool is_latest(uint64_t stream) const { return latest_ != nullptr && latest_->stamps->stream == stream; }
  Block *grow(Space *space, uint64_t nbytes);
  Block *take_grown(Space *space, uint64_t nbytes);
  Block *grow_as_torch(Space *space, uint64_t nbytes);
  uint64_t creatable(uint64_t nbytes);
  bool may_exceed(uint64_t missing);
  void plan_at_best(Space *space, const Opening &opening, uint64_t creatable);
  Block *fill(Space *space);
  Block *carry_out(Space *space);
  Returning returning(bool host) const { return Returning(pages_, granularity_, movable_spaces(host)); }
  void make_plan(Space *space, const Opening &opening, uint64_t creatable);
  void new_pages(uint64_t start, uint64_t end, uint64_t largest, bool host, std::vector<Move> &moves) const;
  std::vector<Block *> movable(const Space *space);
  uint64_t page_size(uint64_t stream);
  void place_in_new_range(Space *space, uint64_t nbytes, Opening *opening);
  uint64_t add_range(Space *space, uint64_t size, uint64_t least, uint64_t unit);
  void check_possible(uint64_t nbytes, bool host);
  void check_room(uint64_t nbytes, bool host);
  void trim_host();
  Block *take_on_host(uint64_t nbytes, uint64_t stream);
  HostChoice *choice_for(uint64_t stream) const;
  Block *noted(HostChoice *choice, Block *block, bool host, bool beyond = false);
  uint64_t room();
  /* Bytes of host pages in which no block lies. */
  uint64_t free_on_host() const { return std::max(ledger_.host(), in_use_on_host_) - in_use_on_host_; }
  /* What is reserved, but for host pages that are kept for the next time. */
  uint64_t reserved() const { return ledger_.reserved() - free_on_host(); }
  uint64_t give_back_free(const std::vector<Space *> &spaces);
  static std::vector<Source> every_free_page(const std::vector<Space *> &spaces);
  void give_back_first(const std::vector<Source> &leaving, int64_t nbytes);
  void give_back(const Source &source);
  void prepare(size_t steps);
  void drop_empty_ranges(const std::vector<Space *> &spaces);
  void give_up(const Space *space);
  std::vector<Space *> every_space() const;
  virtual std::vector<Space *> movable_spaces(bool host) const;
  /* Whether the free memory of a space stays where it is: it belongs to a private pool that has not ended. */
  bool stays(const Space *space) const { return is_kept(space->stream) && !space->stamps->forgotten(); }

  const uint64_t granularity_, slack_, steps_;
  const bool follows_torch_;
  const uint64_t most_aliases_, most_host_;
  uint64_t in_use_on_host_ = 0; /* bytes of the blocks in spaces of the host */
  Pages pages_;
  Spaces spaces_;    /* in the order in which they were made */
  Spaces ownerless_; /* of streams that have been destroyed, or given up. Nothing is allocated in them any more. */
  std::vector<std::unique_ptr<Stream>> streams_;
  Table<Stream> by_stream_;
  Stream *latest_ = nullptr; /* the one used last */
  Plan plan_;
  std::vector<Page *> carried_;
  uint64_t allocations_ = 0, allocated_bytes_ = 0;
  uint64_t range_; /* bytes of address space to reserve at once */
  uint64_t most_reserved_ = 0;
  uint64_t left_ = NO_LIMIT; /* what the device had left when it was asked; without end, once the driver was called */
  bool gave_back_ = false; /* since a new page was last made */
  std::unique_ptr<HostChoice> choice_; /* null where no memory of the host may be taken */
  Recurrence recurrence_;

 private:
  Sleeper *sleeper_of(uint64_t tag) const;
  std::vector<Space *> tagged(uint64_t tag) const;
  std::vector<std::vector<Move>> moves_to_fill(const Space *space, uint64_t nbytes, bool host) const;
  std::vector<Block *> blocks_tagged(uint64_t tag);
  uint64_t needed(uint64_t tag, bool host) const;
  void quieten(const std::vector<Space *> &spaces, const std::vector<Block *> &blocks);
  static void check_not_shared(const std::vector<Page *> &pages);
  void drop_unused(uint64_t tag);
  std::vector<Space *> leaving_for(uint64_t tag, bool host) const;
  Space *space_beside(const Space *space, bool host);
  void drop_aside(Space *holder, const Range *aside);
  void wake_all();
  void forget_sleeper(uint64_t tag);

  std::vector<std::unique_ptr<Sleeper>> sleepers_; /* in the order in which they fell asleep */
};

}  // namespace cuplug

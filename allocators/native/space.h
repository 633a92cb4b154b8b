/* The layout of address space of which only parts are mapped: blocks, free memory, and holes (spans.py).
 *
 * Address arithmetic only. One space holds the address ranges of one stream, for small or for large blocks. Each range
 * is cut from end to end into parts, used, free, or holes. A hole begins and ends at page boundaries, and neighbours that
 * are both free, or both holes, are joined at once. */
#pragma once

#include <memory>
#include <vector>

#include "block.h"
#include "ledger.h"
#include "pages.h"
#include "sorted.h"
#include "stamps.h"

namespace cuplug {

/* Address space reserved from the driver. */
class Range {
 public:
  Range(uint64_t address, uint64_t nbytes, uint64_t granularity);

  const uint64_t address, nbytes;
  Block *first = nullptr; /* its parts, a list by address */

  bool holds(uint64_t at) const { return at - address < nbytes; }
  /* The page that is mapped at `at`. */
  Page *page_at(uint64_t at) const;
  /* Make sure that `set` cannot fail there. */
  void prepare(uint64_t start, uint64_t end);
  /* Note what is mapped there: `page`, or nothing. */
  void set(uint64_t start, uint64_t end, Page *page);
  /* Call `work` with the first address and the end of each row of pages without a gap. */
  template <class Work>
  void each_run(Work work) const {
    for (uint64_t at = address, end = address + nbytes; at < end;) {
      uint64_t run = at;
      while (run < end && page_at(run) != nullptr) run += page_at(run)->nbytes;
      if (run > at) work(at, run);
      at = std::max(run, at + granularity_);
    }
  }

 private:
  static constexpr size_t LEAF = 512;
  struct Leaf {
    Page *pages[LEAF] = {};
  };
  const uint64_t granularity_;
  std::vector<std::unique_ptr<Leaf>> leaves_; /* the page of each granule; large ones stand at each of theirs */
};

/* Where a block could lie that no free part can hold: among free parts and holes between two blocks. */
struct Opening {
  struct Hole {
    uint64_t start, end;
  };
  uint64_t address = 0;
  uint64_t nbytes = 0;
  uint64_t missing = 0;    /* bytes of the holes there */
  uint64_t room = 0;       /* bytes between the two blocks */
  std::vector<Hole> holes; /* what has to be mapped */
};

class Space {
 public:
  Space(uint64_t stream, bool small, std::shared_ptr<Stamps> stamps, uint64_t granularity, Ledger &ledger,
        Store<Block> &parts, Runs &runs, uint64_t tag = 0, bool host = false)
      : stream(stream),
        small(small),
        tag(tag),
        host(host),
        stamps(std::move(stamps)),
        free_(runs),
        granularity_(granularity),
        ledger_(ledger),
        parts_(parts),
        runs_(runs) {}

  const uint64_t stream;
  const bool small;
  const uint64_t tag;  /* of all blocks in it; 0 for none */
  bool host;           /* whether all its pages are memory of the host */
  bool asleep = false; /* whether no memory stands behind its pages */
  const std::shared_ptr<Stamps> stamps; /* tell when work that was queued on the stream before a free has passed */
  std::vector<std::unique_ptr<Range>> ranges; /* in the order in which they came */

  /* Make sure that the next call of `take`, `take_at` or `put` cannot fail for want of host memory, */
  void prepare() {
    parts_.reserve(2);
    runs_.reserve(Sorted::MARGIN);
  }
  /* and `steps` calls of `mapped` and `unmapped` before it neither. */
  void prepare_steps(size_t steps);

  void add(std::unique_ptr<Range> range);
  static bool is_empty(const Range &range) { return range.first->kind == HOLE && range.first->after == nullptr; }
  /* Let go of an empty range. */
  void remove(const Range *range);
  Range *range_of(uint64_t address) const;

  /* The smallest free part of at least `nbytes`, of equals that of the lowest address; null if none fits. */
  Block *find(uint64_t nbytes) const { return free_.block(free_.find(order_of(nbytes, 0))); }
  /* The free part that holds `nbytes` at `address`, or null. */
  Block *find_at(uint64_t address, uint64_t nbytes) const;
  /* Take the first `nbytes` of a free part as a block. */
  Block *take(Block *span, uint64_t nbytes);
  /* Take `nbytes` from the middle of a free part as a block. */
  Block *take_at(Block *span, uint64_t address, uint64_t nbytes);
  /* Make a block free again. */
  void put(Block *block);

  uint64_t granularity() const { return granularity_; }
  /* Whether the gap between two blocks goes on with `span`. */
  static bool in_gap(const Block *span) { return span != nullptr && span->kind != USED; }
  /* Call `work` with the first part of each gap between two blocks, or ends of a range, wherever a hole is in it. */
  template <class Work>
  void each_gap(Work work) const {
    for (const Block *hole : holes_) {
      const Block *first = hole;
      bool seen = false; /* whether another hole stands before this one in the same gap */
      for (; in_gap(first->before) && !seen; first = first->before) seen = first->before->kind == HOLE;
      if (!seen) work(first);
    }
  }
  /* The bytes of the holes in which pages are missing for a block from `start` to `end`, in the gap whose first part is
   * `gap`. `holes` gets them. */
  uint64_t missing(const Block *gap, uint64_t start, uint64_t end, std::vector<Opening::Hole> *holes) const;
  /* The holes in order of address. */
  std::vector<const Block *> holes_in_order() const;
  /* Call `work` with each free part of at least `nbytes`, smallest first, of equals that of the lowest address, until it
   * answers no. */
  template <class Work>
  void each_free_from(uint64_t nbytes, Work work) const {
    for (Sorted::At at = free_.find(order_of(nbytes, 0)); free_.block(at) != nullptr; at = free_.next(at))
      if (!work(free_.block(at))) return;
  }
  /* Call `work` with each free part of at least a page's size, smallest first. */
  template <class Work>
  void each_free(Work work) const {
    for (Sorted::At at = free_.find(order_of(granularity_, 0)); free_.block(at) != nullptr; at = free_.next(at))
      work(free_.block(at));
  }
  /* The last page that lies in a free part as a whole and ends at `end` or before; null if there is none. `end` becomes
   * its address, from where to go on. Begin with the part's own end. */
  Page *page_before(const Block *span, uint64_t *end) const;
  /* Append its pages to `pages`, each once, in order of address. */
  void distinct_pages(std::vector<Page *> &pages) const;
  /* No memory stands behind the pages from now on, and nothing here is counted until `wake`. */
  void fall_asleep() {
    count(-1);
    asleep = true;
  }
  /* Memory stands behind the pages again. */
  void wake() {
    asleep = false;
    count(1);
  }
  /* How many parts its ranges have: used, free, or holes. */
  size_t pieces() const;
  /* Take all ranges of `other`, a space of the same stream and of blocks as large, with all that is in them. It cannot fail
   * if so many steps are prepared, and room for the ranges. */
  void take_over(Space &other);
  /* `page` has been mapped, in a hole: free memory now. Returns the free part that it belongs to. */
  Block *mapped(Page *page);
  /* The page at `address`, in the free `span`, has been unmapped: a hole now. `span` keeps its head. */
  void unmapped(Block *span, uint64_t address, uint64_t nbytes);

 private:
  Block *hole_at(uint64_t address) const;
  void add_hole(Block *hole);
  void drop_hole(Block *hole);
  void join(Block *span);
  Block *join_free(Block *span);
  void list(Block *span);
  void unlist(Block *span);
  void share(Block *span);
  void unshare(Block *span);
  void count_shared();
  void count(int64_t sign, size_t from = 0);
  void count_held(int64_t segments, int64_t nbytes) {
    ledger_.mapped(segments, nbytes, small);
    if (host) ledger_.on_host(nbytes, small);
  }

  Sorted free_;
  std::vector<Block *> holes_; /* in no order */
  const uint64_t granularity_;
  Ledger &ledger_;
  Store<Block> &parts_;
  Runs &runs_;
  int64_t shared_ = 0, shared_bytes_ = 0; /* a change, not yet counted: free parts beside blocks, and their bytes */
};

/* The space in which a part lies. */
inline Space *space_at(const Block *part) { return static_cast<Space *>(part->home); }

}  // namespace cuplug

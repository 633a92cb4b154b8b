/* Which free pages could serve again at an address where they are still mapped (returning.py). */
#pragma once

#include <vector>

#include "pages.h"
#include "space.h"

namespace cuplug {

/* A free page, and the free part in which it lies. */
struct Source {
  Block *span;
  Page *page;
};

/* A look at what is free in some spaces, until something changes there. */
class Returning {
 public:
  Returning(const Pages &pages, uint64_t granularity, const std::vector<Space *> &spaces);

  /* The free part in which `page` lies as a whole; null if there is none. */
  Block *span_of(const Page *page) const;
  const std::vector<Alias> &aliases() const { return pages_.aliases(); }
  /* The bytes of pages that could come back to the aliases before the one at `index`, less those that could not. */
  int64_t saved_before(size_t index) const { return saved_.empty() ? 0 : saved_[index]; }
  /* Call `work` with each alias in the holes of `opening` whose page could come, and the part in which that lies: each
   * page once, in order of address, and none that stands in the opening itself. */
  template <class Work>
  void each_within(const Opening &opening, Work work) const {
    const uint64_t start = opening.address / granularity_ * granularity_, end = opening.address + opening.nbytes;
    std::vector<const Page *> seen;
    for (const Opening::Hole &hole : opening.holes)
      for (const Alias &alias : pages_.within(hole.start, hole.end)) {
        const Page *page = alias.page;
        if (std::find(seen.begin(), seen.end(), page) != seen.end()) continue;
        if (start < page->address + page->nbytes && page->address < end) continue;
        Block *span = span_of(page);
        if (span == nullptr) continue;
        seen.push_back(page);
        work(alias, span);
      }
  }

 private:
  const Pages &pages_;
  const uint64_t granularity_;
  std::vector<Block *> spans_;  /* in order of address */
  std::vector<int64_t> saved_;  /* `saved_before`, unless there is no alias */
};

/* What could come back between two addresses, asked for ones of which neither is ever below that of the time before:
 * `Returning.saving` of returning.py. */
class Saving {
 public:
  /* From addresses on before which the aliases before the one at `first` begin. */
  Saving(const Returning &returning, size_t first, uint64_t granularity)
      : returning_(returning), aliases_(returning.aliases()), granularity_(granularity), first_(first), last_(first) {}

  /* The bytes of pages that could come back between `start` and `end`, less those that would be unmapped there. */
  int64_t operator()(uint64_t start, uint64_t end);

 private:
  const Returning &returning_;
  const std::vector<Alias> &aliases_;
  const uint64_t granularity_;
  size_t first_, last_; /* the first alias that does not begin before the start, and before the end */
};

}  // namespace cuplug

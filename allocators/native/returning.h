/* Which free pages could serve again at an address where they are still mapped (returning.py). */
#ifndef CUPLUG_RETURNING_H
#define CUPLUG_RETURNING_H

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
  std::vector<Block *> spans_; /* in order of address */
};

}  // namespace cuplug
#endif

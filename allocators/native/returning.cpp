#include "returning.h"

#include <algorithm>

namespace cuplug {

Returning::Returning(const Pages &pages, uint64_t granularity, const std::vector<Space *> &spaces)
    : pages_(pages), granularity_(granularity) {
  if (!pages.has_aliases()) return;
  for (const Space *space : spaces) space->each_free([this](Block *span) { spans_.push_back(span); });
  std::sort(spans_.begin(), spans_.end(), [](const Block *a, const Block *b) { return a->address < b->address; });
}

Block *Returning::span_of(const Page *page) const {
  auto next = std::upper_bound(spans_.begin(), spans_.end(), page->address,
                               [](uint64_t address, const Block *span) { return address < span->address; });
  if (next == spans_.begin()) return nullptr;
  Block *span = *--next;
  return span->end() < page->address + page->nbytes ? nullptr : span;
}

}  // namespace cuplug

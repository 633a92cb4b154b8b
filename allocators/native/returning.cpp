#include "returning.h"

#include <algorithm>

namespace cuplug {

Returning::Returning(const Pages &pages, uint64_t granularity, const std::vector<Space *> &spaces)
    : pages_(pages), granularity_(granularity) {
  if (!pages.has_aliases()) return;
  for (const Space *space : spaces) space->each_free([this](Block *span) { spans_.push_back(span); });
  std::sort(spans_.begin(), spans_.end(), [](const Block *a, const Block *b) { return a->address < b->address; });
  saved_.reserve(pages.aliases().size() + 1);
  saved_.push_back(0);
  for (const Alias &alias : pages.aliases()) {
    const int64_t nbytes = int64_t(alias.page->nbytes);
    saved_.push_back(saved_.back() + (span_of(alias.page) != nullptr ? nbytes : -nbytes));
  }
}

Block *Returning::span_of(const Page *page) const {
  auto next = std::upper_bound(spans_.begin(), spans_.end(), page->address,
                               [](uint64_t address, const Block *span) { return address < span->address; });
  if (next == spans_.begin()) return nullptr;
  Block *span = *--next;
  return span->end() < page->address + page->nbytes ? nullptr : span;
}

int64_t Saving::operator()(uint64_t start, uint64_t end) {
  start = start / granularity_ * granularity_;
  end = round_up(end, granularity_);
  while (first_ < aliases_.size() && aliases_[first_].address < start) ++first_;
  while (last_ < aliases_.size() && aliases_[last_].address < end) ++last_;
  size_t last = last_;
  int64_t lost = 0;
  if (last > first_ && aliases_[last - 1].end() > end) lost += int64_t(aliases_[--last].page->nbytes);
  if (first_ > 0 && aliases_[first_ - 1].end() > start) lost += int64_t(aliases_[first_ - 1].page->nbytes);
  return returning_.saved_before(last) - returning_.saved_before(first_) - lost;
}

}  // namespace cuplug

#include "space.h"

#include <algorithm>

namespace cuplug {

namespace {

bool is(const Block *span, Kind kind) { return span != nullptr && span->kind == kind; }
bool is_mapped(const Block *span) { return span != nullptr && span->kind != HOLE; }

}  // namespace

/* --- ranges */

Range::Range(uint64_t address, uint64_t nbytes, uint64_t granularity)
    : address(address), nbytes(nbytes), granularity_(granularity), leaves_((nbytes / granularity + LEAF - 1) / LEAF) {}

Page *Range::page_at(uint64_t at) const {
  size_t granule = (at - address) / granularity_;
  const Leaf *leaf = leaves_[granule / LEAF].get();
  return leaf == nullptr ? nullptr : leaf->pages[granule % LEAF];
}

void Range::prepare(uint64_t start, uint64_t end) {
  for (size_t at = (start - address) / granularity_ / LEAF; at <= (end - 1 - address) / granularity_ / LEAF; ++at)
    if (leaves_[at] == nullptr) leaves_[at].reset(new Leaf);
}

void Range::set(uint64_t start, uint64_t end, Page *page) {
  for (size_t granule = (start - address) / granularity_; granule < (end - address) / granularity_; ++granule)
    leaves_[granule / LEAF]->pages[granule % LEAF] = page;
}

void Space::prepare_steps(size_t steps) {
  parts_.reserve(2 + 3 * steps);
  free_.reserve(2 + 3 * steps);
  holes_.reserve(holes_.size() + 2 * steps);
}

void Space::add(std::unique_ptr<Range> range) {
  ranges.reserve(ranges.size() + 1);
  holes_.reserve(holes_.size() + 1);
  range->first = first_part(parts_, range->address, range->nbytes, this, HOLE);
  add_hole(range->first);
  ranges.push_back(std::move(range));
}

void Space::remove(const Range *range) {
  drop_hole(range->first);
  range->first->kind = SPARE;
  parts_.give(range->first);
  drop_if(ranges, [&](const auto &found) { return found.get() == range; });
}

Range *Space::range_of(uint64_t address) const {
  for (const auto &range : ranges)
    if (range->holds(address)) return range.get();
  return nullptr;
}

/* --- blocks */

Block *Space::take(Block *span, uint64_t nbytes) {
  Order was = order_of(span);
  unshare(span);
  Block *rest = span->nbytes > nbytes ? cut_off(parts_, span, nbytes) : nullptr;
  span->kind = USED;
  if (rest != nullptr) {
    share(rest);
    free_.replace(was, rest);
  } else {
    free_.erase(was);
  }
  count_shared();
  return span;
}

Block *Space::find_at(uint64_t address, uint64_t nbytes) const {
  for (Sorted::At at = free_.find(order_of(nbytes, 0)); free_.block(at) != nullptr; at = free_.next(at)) {
    Block *span = free_.block(at);
    if (span->address <= address && address + nbytes <= span->end()) return span;
  }
  return nullptr;
}

Block *Space::take_at(Block *span, uint64_t address, uint64_t nbytes) {
  if (address > span->address) {
    unlist(span);
    Block *rest = cut_off(parts_, span, address - span->address);
    rest->kind = USED; /* until it is listed */
    list(span);
    list(rest);
    span = rest;
  }
  return take(span, nbytes);
}

void Space::put(Block *block) {
  block->stamp = stamps->freed(block->nbytes);
  join_free(block);
  count_shared();
}

/* --- pages */

uint64_t Space::missing(const Block *gap, uint64_t start, uint64_t end, std::vector<Opening::Hole> *holes) const {
  start = start / granularity_ * granularity_;
  end = round_up(end, granularity_);
  uint64_t total = 0;
  for (const Block *span = gap; in_gap(span) && span->address < end; span = span->after) {
    if (span->kind != HOLE || span->end() <= start) continue;
    Opening::Hole hole{std::max(span->address, start), std::min(span->end(), end)};
    total += hole.end - hole.start;
    if (holes != nullptr) holes->push_back(hole);
  }
  return total;
}

std::vector<const Block *> Space::holes_in_order() const {
  std::vector<const Block *> found(holes_.begin(), holes_.end());
  std::sort(found.begin(), found.end(), [](const Block *a, const Block *b) { return a->address < b->address; });
  return found;
}

Page *Space::page_before(const Block *span, uint64_t *end) const {
  const Range *range = range_of(span->address);
  uint64_t at = *end / granularity_ * granularity_;
  while (at >= span->address + granularity_) {
    Page *page = range->page_at(at - granularity_);
    bool is_whole = page->address >= span->address && page->address + page->nbytes <= at;
    at = *end = page->address;
    if (is_whole) return page;
  }
  return nullptr;
}

void Space::distinct_pages(std::vector<Page *> &pages) const {
  const size_t before = pages.size();
  for (const auto &range : ranges)
    for (uint64_t at = range->address; at < range->address + range->nbytes;) {
      Page *page = range->page_at(at);
      if (page != nullptr) pages.push_back(page);
      at += page != nullptr ? page->nbytes : granularity_;
    }
  std::sort(pages.begin() + ptrdiff_t(before), pages.end(),
            [](const Page *a, const Page *b) { return a->address < b->address; });
}

size_t Space::pieces() const {
  size_t found = 0;
  for (const auto &range : ranges)
    for (const Block *part = range->first; part != nullptr; part = part->after) ++found;
  return found;
}

void Space::take_over(Space &other) {
  const size_t before = ranges.size();
  other.count(-1);
  for (auto &range : other.ranges) {
    for (Block *part = range->first; part != nullptr; part = part->after) {
      part->home = this;
      if (part->kind == HOLE) {
        other.drop_hole(part);
        add_hole(part);
      } else if (part->kind == FREE) {
        other.unlist(part);
        list(part);
      }
    }
    ranges.push_back(std::move(range));
  }
  other.ranges.clear();
  shared_ = shared_bytes_ = other.shared_ = other.shared_bytes_ = 0;
  count(1, before);
}

Block *Space::mapped(Page *page) {
  Block *hole = hole_at(page->address);
  drop_hole(hole);
  if (hole->address < page->address) {
    Block *rest = cut_off(parts_, hole, page->address - hole->address);
    add_hole(hole);
    hole = rest;
  }
  if (hole->nbytes > page->nbytes) add_hole(cut_off(parts_, hole, page->nbytes));
  int beside = is_mapped(hole->before) + is_mapped(hole->after);
  count_held(1 - beside, int64_t(page->nbytes));
  range_of(page->address)->set(page->address, page->address + page->nbytes, page);
  hole->stamp = page->freed_stamps != nullptr ? page->freed_stamp : 0;
  Block *span = join_free(hole);
  count_shared();
  return span;
}

void Space::unmapped(Block *span, uint64_t address, uint64_t nbytes) {
  unlist(span);
  Block *hole = span->address < address ? cut_off(parts_, span, address - span->address) : span;
  Block *rest = hole->nbytes > nbytes ? cut_off(parts_, hole, nbytes) : nullptr;
  hole->kind = HOLE;
  if (rest != nullptr) list(rest);
  if (span != hole) list(span);
  int beside = is_mapped(hole->before) + is_mapped(hole->after);
  if (!asleep) count_held(beside - 1, -int64_t(nbytes));
  range_of(address)->set(address, address + nbytes, nullptr);
  if (is(hole->after, HOLE)) {
    drop_hole(hole->after);
    join(hole);
  }
  if (is(hole->before, HOLE))
    join(hole->before);
  else
    add_hole(hole);
  count_shared();
}

/* --- small help */

Block *Space::hole_at(uint64_t address) const {
  for (Block *hole : holes_)
    if (address - hole->address < hole->nbytes) return hole;
  return nullptr;
}

void Space::add_hole(Block *hole) {
  hole->slot = holes_.size();
  holes_.push_back(hole);
}

void Space::drop_hole(Block *hole) {
  holes_[hole->slot] = holes_.back();
  holes_[hole->slot]->slot = hole->slot;
  holes_.pop_back();
}

/* Take the next part, which is listed nowhere any more, into `span`. */
void Space::join(Block *span) {
  span->stamp = std::max(span->stamp, span->after->stamp);
  join_next(parts_, span);
}

/* Make `span` free memory, one with what is free beside it, and list that. */
Block *Space::join_free(Block *span) {
  Order was = 0;
  bool was_listed = false; /* whether what is now a part of it stands at `was` */
  if (is(span->after, FREE)) {
    was = order_of(span->after);
    was_listed = true;
    unshare(span->after);
    join(span);
  }
  if (is(span->before, FREE)) {
    if (was_listed) free_.erase(was);
    Block *before = span->before;
    was = order_of(before);
    was_listed = true;
    unshare(before);
    join(before);
    span = before;
  }
  share(span);
  if (was_listed)
    free_.replace(was, span);
  else
    free_.insert(span);
  return span;
}

void Space::list(Block *span) {
  share(span);
  free_.insert(span);
}

void Space::unlist(Block *span) {
  free_.erase(order_of(span));
  unshare(span);
}

void Space::share(Block *span) {
  span->kind = FREE;
  span->shared = is(span->before, USED) || is(span->after, USED);
  if (!span->shared) return;
  shared_ += 1;
  shared_bytes_ += int64_t(span->nbytes);
}

void Space::unshare(Block *span) {
  if (!span->shared) return;
  shared_ -= 1;
  shared_bytes_ -= int64_t(span->nbytes);
}

/* Count all that stands in pages here, or take it off what is counted: of the ranges from the one numbered `from` on. */
void Space::count(int64_t sign, size_t from) {
  int64_t segments = 0, nbytes = 0, shared = 0, shared_bytes = 0;
  for (size_t at = from; at < ranges.size(); ++at)
    for (const Block *part = ranges[at]->first; part != nullptr; part = part->after) {
      if (part->kind == HOLE) continue;
      segments += !is_mapped(part->before);
      nbytes += int64_t(part->nbytes);
      if (part->kind != FREE || !part->shared) continue;
      shared += 1;
      shared_bytes += int64_t(part->nbytes);
    }
  count_held(sign * segments, sign * nbytes);
  if (shared != 0) ledger_.split(sign * shared, sign * shared_bytes, small);
}

void Space::count_shared() {
  if (shared_ == 0 && shared_bytes_ == 0) return;
  if (!asleep) ledger_.split(shared_, shared_bytes_, small);
  shared_ = shared_bytes_ = 0;
}

}  // namespace cuplug

#include "sleeping.h"

#include <algorithm>
#include <set>

#include "expandable.h"

namespace cuplug {

CUPLUG_QUICK_THREAD_LOCAL uint64_t memory_tag = 0;

/* --- contents on the host */

void Sleeper::save(uint64_t address, uint64_t nbytes) {
  void *&copy = copies_[address];
  int answer = keeper_.save(keeper_.context, address, nbytes, &copy);
  if (answer != CUPLUG_OK) copies_.erase(address);
  check(answer);
}

void Sleeper::restore() {
  for (const auto &[address, copy] : copies_) check(keeper_.restore(keeper_.context, copy));
}

void Sleeper::wait() {
  for (const auto &[address, copy] : copies_) check(keeper_.wait(keeper_.context, copy));
}

void Sleeper::forget(uint64_t address) {
  auto found = copies_.find(address);
  if (found == copies_.end()) return;
  void *copy = found->second;
  copies_.erase(found);
  keeper_.drop(keeper_.context, copy);
}

/* --- what `expandable` does (tagged_memory.py) */

uint64_t ExpandableAllocator::fall_asleep(uint64_t tag, const cuplug_keeper *keeper) {
  pages_.begin();
  std::vector<Space *> spaces = tagged(tag);
  if (tag == 0 || spaces.empty() || sleeper_of(tag) != nullptr) return 0;
  std::vector<Block *> blocks = blocks_tagged(tag);
  quieten(spaces, blocks);
  std::vector<Page *> pages, stand_ins;
  std::vector<Range *> ranges;
  for (const Space *space : spaces) {
    space->distinct_pages(pages);
    while (ranges.size() < pages.size()) ranges.push_back(space->range_of(pages[ranges.size()]->address));
  }
  if (pages.empty()) return 0;
  check_not_shared(pages);
  auto sleeper = std::make_unique<Sleeper>(tag, keeper);
  if (keeper != nullptr) {
    for (const Block *block : blocks) sleeper->save(block->address, block->nbytes);
    sleeper->wait();
  }
  sleepers_.reserve(sleepers_.size() + 1);
  for (const Page *page : pages) stand_ins.push_back(pages_.stand_in(page->address, page->nbytes));
  /* From here on nothing fails. */
  pages_.retire(pages);
  uint64_t nbytes = 0;
  for (size_t at = 0; at < stand_ins.size(); ++at) {
    Page *stand_in = stand_ins[at];
    ranges[at]->set(stand_in->address, stand_in->address + stand_in->nbytes, stand_in);
    nbytes += stand_in->nbytes;
  }
  for (Space *space : spaces) space->fall_asleep();
  ledger_.num_device_free += int64_t(pages.size());
  sleepers_.push_back(std::move(sleeper));
  events_.emit(SLEEP, 0, 0, nbytes, tag);
  return nbytes;
}

/* What other processes have mapped stays with them: to give it back here would free nothing, and they would never see
 * what stands at its addresses later. */
void ExpandableAllocator::check_not_shared(const std::vector<Page *> &pages) {
  for (const Page *page : pages)
    if (page->shared) throw Stopped{CUPLUG_NOT_SUPPORTED};
}

/* Wait for the work that may use `blocks`, which lie in `spaces`; what is free there goes back, but what pools keep. */
void ExpandableAllocator::quieten(const std::vector<Space *> &spaces, const std::vector<Block *> &blocks) {
  std::set<uint64_t> streams;
  for (const Space *space : spaces)
    if (!space->stamps->forgotten()) streams.insert(space->stream);
  for (const Block *block : blocks)
    if (block->uses != nullptr) streams.insert(block->uses->streams.begin(), block->uses->streams.end());
  for (uint64_t stream : streams) upstream_.fence_everything(stream).wait();
  for (const Block *block : blocks) {
    if (block->uses == nullptr) continue;
    for (const Wait &wait : block->uses->fences) wait.fence.wait();
  }
  std::vector<Space *> released = spaces;
  drop_if(released, [this](const Space *space) { return stays(space); });
  give_back_free(released);
}

uint64_t ExpandableAllocator::rouse(uint64_t tag) {
  Sleeper *sleeper = sleeper_of(tag);
  if (sleeper == nullptr) return 0;
  pages_.begin();
  pages_.release_strays();
  drop_unused(tag);
  const uint64_t nbytes = needed(tag), on_host = needed(tag, true);
  check_room(nbytes - on_host, false);
  check_room(on_host, true);
  const std::vector<Space *> spaces = tagged(tag);
  std::vector<Page *> stand_ins, filled;
  for (const Space *space : spaces) space->distinct_pages(stand_ins);
  filled.reserve(nbytes / granularity_);
  try {
    for (Space *space : spaces)
      for (const auto &moves : moves_to_fill(space, nbytes, space->host)) {
        pages_.carry_out(moves, space->stream, carried_);
        filled.insert(filled.end(), carried_.begin(), carried_.end());
      }
    sleeper->restore();
    sleeper->wait();
  } catch (...) {
    pages_.retire(filled);
    throw;
  }
  for (Page *page : filled) {
    for (Space *space : spaces)
      if (Range *range = space->range_of(page->address)) range->set(page->address, page->address + page->nbytes, page);
    ++ledger_.num_device_alloc;
  }
  for (Space *space : spaces) space->wake();
  for (Page *stand_in : stand_ins) pages_.drop_stand_in(stand_in);
  forget_sleeper(tag);
  events_.emit(WAKE, 0, 0, nbytes, tag);
  return nbytes;
}

/* What to map for `space`, one range at a time, where `nbytes` are to be mapped in all; in fewer pages than before, if it was
 * built up bit by bit. */
std::vector<std::vector<Move>> ExpandableAllocator::moves_to_fill(const Space *space, uint64_t nbytes, bool host) const {
  const uint64_t largest = power_of_two(nbytes / policy::PAGES_OF_ALL, granularity_);
  std::vector<std::vector<Move>> found;
  for (const auto &range : space->ranges) {
    std::vector<Move> moves;
    range->each_run([&](uint64_t start, uint64_t end) { new_pages(start, end, largest, host, moves); });
    if (!moves.empty()) found.push_back(std::move(moves));
  }
  return found;
}

uint64_t ExpandableAllocator::needed(uint64_t tag) const { return needed(tag, true) + needed(tag, false); }

/* How many bytes of the host's memory `rouse` would take, or of the device's. */
uint64_t ExpandableAllocator::needed(uint64_t tag, bool host) const {
  std::vector<Page *> pages;
  for (const Space *space : tagged(tag))
    if (space->host == host) space->distinct_pages(pages);
  uint64_t nbytes = 0;
  for (const Page *page : pages) nbytes += page->nbytes;
  return nbytes;
}

/* Let go of sleeping pages in which nothing lies any more. */
void ExpandableAllocator::drop_unused(uint64_t tag) {
  for (Space *space : tagged(tag)) {
    if (stays(space)) continue;
    std::vector<Source> unused = every_free_page({space});
    space->prepare_steps(2 * unused.size());
    for (const Source &source : unused) {
      space->unmapped(source.span, source.page->address, source.page->nbytes);
      pages_.drop_stand_in(source.page);
    }
  }
}

/* Before the end: no block is in use, so that nothing has to come back. */
void ExpandableAllocator::wake_all() {
  while (!sleepers_.empty()) {
    const uint64_t tag = sleepers_.front()->tag;
    drop_unused(tag);
    for (Space *space : tagged(tag)) space->wake();
    forget_sleeper(tag);
  }
}

std::vector<cuplug_sleeping> ExpandableAllocator::asleep() {
  std::vector<cuplug_sleeping> found;
  for (const auto &sleeper : sleepers_) {
    cuplug_sleeping one{sleeper->tag, 0, 0, 0};
    for (const Block *block : blocks_tagged(sleeper->tag)) {
      one.blocks += 1;
      one.nbytes += block->nbytes;
      if (sleeper->has(block->address)) one.kept_bytes += block->nbytes;
    }
    found.push_back(one);
  }
  std::sort(found.begin(), found.end(), [](const auto &a, const auto &b) { return a.tag < b.tag; });
  return found;
}

Sleeper *ExpandableAllocator::sleeper_of(uint64_t tag) const {
  for (const auto &sleeper : sleepers_)
    if (sleeper->tag == tag) return sleeper.get();
  return nullptr;
}

void ExpandableAllocator::forget_sleeper(uint64_t tag) {
  drop_if(sleepers_, [&](const auto &sleeper) { return sleeper->tag == tag; });
}

std::vector<Space *> ExpandableAllocator::tagged(uint64_t tag) const {
  std::vector<Space *> found = every_space();
  drop_if(found, [&](const Space *space) { return space->tag != tag; });
  return found;
}

/* The blocks in use of that tag, in order of address. */
std::vector<Block *> ExpandableAllocator::blocks_tagged(uint64_t tag) {
  std::vector<Block *> found = in_use();
  drop_if(found, [&](const Block *block) { return space_at(block)->tag != tag; });
  std::sort(found.begin(), found.end(), [](const Block *a, const Block *b) { return a->address < b->address; });
  return found;
}

}  // namespace cuplug

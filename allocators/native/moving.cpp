/* What `expandable` does where memory moves between the device and the host (moving.py, tagged_memory.py). */
#include <algorithm>

#include "expandable.h"

namespace cuplug {

namespace {

/* What moves, and where it comes to stand. */
struct Part {
  Space *space, *beside;                /* beside: of the other side */
  std::vector<std::vector<Move>> moves; /* the new pages, for each range */
};

/* Queue copying what lies in `blocks` to the pages that stand one behind the other from `aside` on, and wait. */
void copy_contents(const std::vector<Block *> &blocks, const std::vector<Part> &parts, uint64_t aside,
                   const cuplug_copier &copier) {
  std::vector<std::pair<uint64_t, uint64_t>> pages; /* where each is to stand, and where it stands aside */
  for (const Part &part : parts)
    for (const auto &moves : part.moves)
      for (const Move &move : moves) {
        pages.emplace_back(move.address, aside);
        aside += move.nbytes;
      }
  std::sort(pages.begin(), pages.end());
  for (const Block *block : blocks) {
    auto page = std::upper_bound(pages.begin(), pages.end(), std::make_pair(block->address, UINT64_MAX)) - 1;
    check(copier.copy(copier.context, page->second + block->address - page->first, block->address, block->nbytes));
  }
  check(copier.wait(copier.context));
}

}  // namespace

uint64_t ExpandableAllocator::exchange(uint64_t tag, const cuplug_copier &copier, bool host) {
  pages_.begin();
  if (sleeper_of(tag) != nullptr) throw Stopped{CUPLUG_ASLEEP};
  std::vector<Space *> leaving = leaving_for(tag, host);
  std::vector<Block *> blocks = blocks_tagged(tag);
  drop_if(blocks, [&](const Block *block) { return space_at(block)->host == host; });
  quieten(leaving, blocks);
  const uint64_t nbytes = to_move(tag, host);
  if (nbytes == 0) return 0;
  std::vector<Page *> old, made;
  for (const Space *space : leaving) space->distinct_pages(old);
  check_not_shared(old);
  pages_.release_strays();
  if (host && ledger_.host() + nbytes > most_host_) release_beyond();
  check_room(nbytes, host);
  std::vector<Part> parts;
  std::vector<Move> all;
  for (Space *space : leaving) {
    Part part{space, nullptr, moves_to_fill(space, nbytes, host)};
    for (const auto &moves : part.moves) all.insert(all.end(), moves.begin(), moves.end());
    if (!part.moves.empty()) parts.push_back(std::move(part));
  }
  add_range(parts.front().space, nbytes, nbytes, granularity_);
  const Range *aside = parts.front().space->ranges.back().get();
  size_t pieces = 0;
  for (Part &part : parts) {
    part.beside = space_beside(part.space, host);
    pieces += part.space->pieces();
  }
  for (const Part &part : parts) {
    part.beside->prepare_steps(pieces);
    part.beside->ranges.reserve(part.beside->ranges.size() + part.space->ranges.size());
  }
  pages_.prepare(all.size() + old.size());
  bool copies = false;
  try {
    pages_.make_aside(all, aside->address, made);
    copies = true;
    copy_contents(blocks, parts, aside->address, copier);
    for (Page *page : made) pages_.lift(page);
    for (Page *page : old) pages_.lift(page);
    size_t at = 0;
    for (const Part &part : parts)
      for (const auto &moves : part.moves) pages_.stand(made, &at, moves);
  } catch (...) {
    if (copies) copier.wait(copier.context);
    pages_.retire(made);
    pages_.put_back(old);
    drop_aside(parts.front().space, aside);
    throw;
  }
  /* From here on it has moved, and nothing fails. */
  pages_.retire(old);
  for (const Block *block : blocks) in_use_on_host_ += host ? block->nbytes : -block->nbytes;
  for (const Part &part : parts) part.beside->take_over(*part.space);
  ledger_.num_device_free += int64_t(old.size());
  size_t at = 0;
  for (const Part &part : parts)
    for (const auto &moves : part.moves)
      for (size_t left = moves.size(); left > 0; --left) {
        Page *page = made[at++];
        part.beside->range_of(page->address)->set(page->address, page->address + page->nbytes, page);
        pages_.tell_mapped(page, part.space->stream, true);
        ++ledger_.num_device_alloc;
      }
  drop_aside(parts.front().beside, aside);
  events_.emit(MOVE, 0, host, nbytes, tag);
  return nbytes;
}

/* The spaces of that tag on the side that is to be left. */
std::vector<Space *> ExpandableAllocator::leaving_for(uint64_t tag, bool host) const {
  std::vector<Space *> found = tagged(tag);
  drop_if(found, [&](const Space *space) { return space->host == host; });
  return found;
}

uint64_t ExpandableAllocator::to_move(uint64_t tag, bool host) const { return needed(tag, !host); }

/* The space of the other side for what lies in `space`. */
Space *ExpandableAllocator::space_beside(const Space *space, bool host) {
  const uint64_t place = space->tag | (host ? CUPLUG_TAG_ON_HOST : 0);
  if (!space->stamps->forgotten()) return space_of(space->stream, space->small, place);
  ownerless_.push_back(std::make_unique<Space>(space->stream, space->small, space->stamps, granularity_, ledger_, parts_,
                                               runs_, space->tag, host));
  return ownerless_.back().get();
}

/* Give back the address space beside which pages were filled; what is refused is an empty range like others. */
void ExpandableAllocator::drop_aside(Space *holder, const Range *aside) {
  try {
    upstream_.free_range(aside->address, aside->nbytes);
  } catch (const Failed &) {
    return;
  }
  holder->remove(aside);
}

}  // namespace cuplug

#include "expandable.h"

#include <algorithm>

#include "placing.h"
#include "policy.h"
#include "torch_segments.h"

namespace cuplug {

namespace {

using namespace policy;

/* Take what lies from `start` to `end` out of the one of `runs` that holds it. */
void take_out(std::vector<Opening::Hole> *runs, uint64_t start, uint64_t end) {
  auto run = std::find_if(runs->begin(), runs->end(),
                          [&](const Opening::Hole &hole) { return hole.start <= start && end <= hole.end; });
  const Opening::Hole rest{end, run->end};
  run->end = start;
  if (rest.start < rest.end) run = runs->insert(run + 1, rest) - 1;
  if (run->start == run->end) runs->erase(run);
}

/* Call `work`, and then `note`, also where `work` throws. */
template <class Work, class Note>
void and_then(Work work, Note note) {
  try {
    work();
  } catch (...) {
    note();
    throw;
  }
  note();
}

}  // namespace

ExpandableAllocator::ExpandableAllocator(const cuplug_upstream &table, const ExpandableOptions &options)
    : Allocator(table, options.memory_limit),
      granularity_(table.page_granularity),
      slack_(options.slack),
      steps_(options.roundup_power2_divisions),
      follows_torch_(options.follows_torch),
      most_aliases_(options.follows_torch ? 0 : options.aliases),
      most_host_(options.host),
      pages_(upstream_, events_, most_aliases_),
      range_(RANGE) {
  if (most_host_ != 0) choice_ = std::make_unique<HostChoice>([this] { return room(); });
}

/* --- allocation and free */

Block *ExpandableAllocator::take(uint64_t, uint64_t nbytes, uint64_t stream) {
  if (memory_tag != 0) {
    if (memory_tag > CUPLUG_MOST_TAGS && most_host_ != 0) {
      try {
        return take_on_host(nbytes, stream);
      } catch (const OutOfMemory &) { /* the device may have room */
      }
    }
    if (sleeper_of(memory_tag & CUPLUG_MOST_TAGS) != nullptr) throw Stopped{CUPLUG_ASLEEP};
  }
  HostChoice *choice = choice_for(stream);
  if (choice != nullptr && choice->wants(nbytes, ledger_.active_bytes() - in_use_on_host_)) {
    try {
      return noted(choice, take_on_host(nbytes, stream), true);
    } catch (const OutOfMemory &) { /* as above */
    }
  }
  Space *space = space_of(stream, nbytes <= SMALL_BLOCK, memory_tag & CUPLUG_MOST_TAGS);
  space->prepare();
  ++allocations_;
  allocated_bytes_ += nbytes;
  recurrence_.asked(nbytes);
  Block *span = follows_torch_ ? find_as_torch(*space, nbytes) : space->find(nbytes);
  span = span != nullptr ? space->take(span, nbytes) : grow(space, nbytes);
  return choice == nullptr ? span : noted(choice, span, false);
}

Block *ExpandableAllocator::take_beyond(uint64_t, uint64_t nbytes, uint64_t stream) {
  Block *block = take_on_host(nbytes, stream);
  HostChoice *choice = choice_for(stream);
  return choice == nullptr ? block : noted(choice, block, true, true);
}

Block *ExpandableAllocator::take_on_host(uint64_t nbytes, uint64_t stream) {
  const uint64_t tag = memory_tag & CUPLUG_MOST_TAGS;
  if (most_host_ == 0) throw OutOfMemory();
  if (tag != 0 && sleeper_of(tag) != nullptr) throw Stopped{CUPLUG_ASLEEP};
  Space *space = space_of(stream, nbytes <= SMALL_BLOCK, tag | CUPLUG_TAG_ON_HOST);
  space->prepare();
  Block *span = space->find(nbytes);
  span = span != nullptr ? space->take(span, nbytes) : grow(space, nbytes);
  in_use_on_host_ += nbytes;
  return span;
}

/* What chooses the side for a request of this stream, if anything does. */
HostChoice *ExpandableAllocator::choice_for(uint64_t stream) const {
  return choice_ == nullptr || memory_tag != 0 || is_kept(stream) ? nullptr : choice_.get();
}

Block *ExpandableAllocator::noted(HostChoice *choice, Block *block, bool host, bool beyond) {
  const uint64_t on_host = in_use_on_host_ - (host ? block->nbytes : 0);
  choice->served(block->address, block->nbytes, ledger_.active_bytes() - on_host, host, beyond);
  return block;
}

/* How many bytes more the device has; none where it does not say. */
uint64_t ExpandableAllocator::room() {
  uint64_t free = 0;
  try {
    free = upstream_.free_bytes();
  } catch (const Failed &) {
    return 0;
  }
  if (memory_limit() == NO_LIMIT) return free;
  const uint64_t held = ledger_.reserved() - ledger_.host();
  return std::min(free, std::max(memory_limit(), held) - held);
}

Block *ExpandableAllocator::take_at(uint64_t address, uint64_t nbytes, uint64_t stream) {
  Stream *found = stream_of(stream);
  if (found == nullptr) return nullptr;
  for (Space *space : found->all()) {
    if (space == found->planned || space->asleep) continue;
    space->prepare();
    if (Block *span = space->find_at(address, nbytes)) {
      if (space->host) in_use_on_host_ += nbytes;
      return space->take_at(span, address, nbytes);
    }
  }
  return nullptr;
}

void ExpandableAllocator::put(Block *block) {
  Space *space = space_at(block);
  space->prepare();
  if (space->host) in_use_on_host_ -= block->nbytes;
  if (space->asleep) sleeper_of(space->tag)->forget(block->address);
  if (choice_ != nullptr) choice_->freed(block->address);
  space->put(block);
}

ExpandableAllocator::Stream *ExpandableAllocator::stream_of(uint64_t stream) {
  if (is_latest(stream)) return latest_;
  Stream *found = by_stream_.find(stream);
  if (found != nullptr) latest_ = found;
  return found;
}

ExpandableAllocator::Stream *ExpandableAllocator::stream_made(uint64_t stream) {
  Stream *found = stream_of(stream);
  if (found != nullptr) return found;
  by_stream_.prepare();
  auto made = std::make_unique<Stream>();
  made->stamps = std::make_shared<Stamps>(upstream_, stream);
  streams_.push_back(std::move(made));
  found = streams_.back().get();
  by_stream_.insert(stream, found);
  return found;
}

Space *ExpandableAllocator::first_space(Stream *stream, bool small) {
  Space *made = new_space(stream, small, 0);
  return (small ? stream->small : stream->large) = made;
}

/* The tag of a space, with CUPLUG_TAG_ON_HOST for those of the host. */
uint64_t ExpandableAllocator::place_of(const Space *space) {
  return space->tag | (space->host ? CUPLUG_TAG_ON_HOST : 0);
}

Space *ExpandableAllocator::tagged_space_of(Stream *stream, bool small, uint64_t tag) {
  std::vector<Space *> &spaces = stream->tagged;
  auto place = std::find_if(spaces.begin(), spaces.end(), [&](const Space *space) {
    const uint64_t other = place_of(space);
    return other > tag || (other == tag && (space->small == small || !space->small));
  });
  if (place != spaces.end() && place_of(*place) == tag && (*place)->small == small) return *place;
  return *spaces.insert(place, new_space(stream, small, tag));
}

Space *ExpandableAllocator::new_space(Stream *stream, bool small, uint64_t tag) {
  spaces_.push_back(std::make_unique<Space>(stream->stamps->stream, small, stream->stamps, granularity_, ledger_, parts_,
                                            runs_, tag & CUPLUG_MOST_TAGS, tag > CUPLUG_MOST_TAGS));
  return spaces_.back().get();
}

std::vector<Space *> ExpandableAllocator::Stream::all() const {
  std::vector<Space *> found;
  for (Space *space : {small, large, planned})
    if (space != nullptr) found.push_back(space);
  found.insert(found.end(), tagged.begin(), tagged.end());
  return found;
}

void ExpandableAllocator::poll() {
  for (const auto &stream : streams_)
    if (!names_pool(stream->stamps->stream)) stream->stamps->poll(granularity_);
  for (const auto &space : ownerless_) space->stamps->poll(granularity_);
}

/* --- mapping memory where a block is to lie */

/* Take a block where memory has to be mapped first. Where that fails, the block is no peak. */
Block *ExpandableAllocator::grow(Space *space, uint64_t nbytes) {
  const uint64_t peak = recurrence_.peak();
  try {
    return take_grown(space, nbytes);
  } catch (...) {
    recurrence_.set_peak(peak);
    throw;
  }
}

Block *ExpandableAllocator::take_grown(Space *space, uint64_t nbytes) {
  pages_.begin();
  poll();
  if (follows_torch_ && !space->host) return grow_as_torch(space, nbytes);
  if (most_host_ != 0) trim_host();
  uint64_t may_create = is_kept(space->stream) ? NO_LIMIT : space->host ? 0 : creatable(nbytes);
  Opening opening;
  if (!best_opening(*space, nbytes, nullptr, &opening)) place_in_new_range(space, nbytes, &opening);
  if (!space->host && opening.missing > may_create && may_exceed(opening.missing)) may_create = opening.missing;
  plan_at_best(space, opening, may_create);
  if (!space->host && plan_.fresh > may_create && may_exceed(plan_.fresh))
    plan_.creatable = may_create = plan_.fresh; /* free pages that are too large to move may stay */
  Block *span = nullptr;
  try {
    span = fill(space);
  } catch (const OutOfMemory &) {
    if (may_create == 0) throw;
  }
  if (span == nullptr) {
    make_plan(space, plan_.opening, 0);
    span = fill(space);
  }
  return space->take_at(span, plan_.opening.address, nbytes);
}

/* The same by PyTorch's rules (`try_allocate_expandable_block`): everything that is missing is created. */
Block *ExpandableAllocator::grow_as_torch(Space *space, uint64_t nbytes) {
  const uint64_t page = torch_page(*space);
  Opening opening;
  if (!lowest_opening(*space, nbytes, page, &opening)) {
    add_range(space, torch_range(upstream_.total_bytes(), nbytes, page), round_up(nbytes, page), page);
    lowest_opening(*space, nbytes, page, &opening);
  }
  plan_.begin();
  for (const Opening::Hole &hole : opening.holes)
    for (uint64_t at = hole.start; at < hole.end; at += page) plan_.moves.push_back({at, std::min(page, hole.end - at), nullptr});
  check_room(opening.missing, false);
  return space->take_at(carry_out(space), opening.address, nbytes);
}

/* How many bytes of new pages may be created before free ones are moved. What lies idle beyond the bound is given back
 * first: private pools have taken so much in the meantime. A program that repeats itself would take it again each time. */
uint64_t ExpandableAllocator::creatable(uint64_t nbytes) {
  uint64_t active = ledger_.active_bytes() + nbytes;
  recurrence_.note_peak(std::max(uint64_t(ledger_.all().allocated_bytes.peak), active));
  const uint64_t most = recurrence_.peak();
  const uint64_t slack = std::min({slack_, most / BEYOND_PEAK, allocated_bytes_ / allocations_ * SLACK_BLOCKS});
  const uint64_t bound = most + most / MOST_IDLE;
  if (reserved() > bound && !recurrence_.repeats_as_a_whole()) {
    const std::vector<Source> idle = every_free_page(movable_spaces(false));
    int64_t beyond = int64_t(ledger_.active_bytes()) - int64_t(bound);
    for (const Source &one : idle) beyond += int64_t(one.page->nbytes);
    give_back_first(idle, beyond);
  }
  const uint64_t most_reserved = most + slack, held = reserved();
  return most_reserved <= held ? 0 : (most_reserved - held) / granularity_ * granularity_;
}

/* Whether the program repeats itself, and all of `missing` bytes may be created for that (expandable.py). */
bool ExpandableAllocator::may_exceed(uint64_t missing) {
  const uint64_t most = recurrence_.peak(), held = missing + reserved(), beyond = most / BEYOND_PEAK;
  if (missing > beyond || held > most + most / MOST_IDLE || !recurrence_.repeats_as_a_whole()) return false;
  if (held > most + beyond && held <= most + left_ / MOST_IDLE) left_ = room();
  return held <= most + std::max(beyond, left_ / MOST_IDLE);
}

/* How to map what a block misses: at `opening`, where that is least, or where more pages can come back; there, if no more
 * is created for it than the `creatable` bytes. */
void ExpandableAllocator::plan_at_best(Space *space, const Opening &opening, uint64_t creatable) {
  if (opening.missing > creatable && pages_.has_aliases()) {
    const Returning found = returning(space->host);
    Opening other;
    best_opening(*space, opening.nbytes, &found, &other);
    make_plan(space, other, creatable);
    if (plan_.fresh <= creatable) return;
  }
  make_plan(space, opening, creatable);
}

/* Map what an opening misses, as the plan says. Pages that are too large to move are given back for new ones. Returns
 * the free part that has come about there. */
Block *ExpandableAllocator::fill(Space *space) {
  const uint64_t room = space->host ? most_host_ - ledger_.host() : plan_.creatable;
  if (plan_.fresh > room && !plan_.coarse.empty()) {
    give_back_first(plan_.coarse, int64_t(plan_.fresh - room));
    make_plan(space, plan_.opening, plan_.creatable);
  }
  check_room(plan_.fresh, space->host);
  return carry_out(space);
}

/* Throw OutOfMemory if so much is missing that there is no such memory, whoever has it at present. It is asked before a plan
 * is made, which takes as long as it has pages. */
void ExpandableAllocator::check_possible(uint64_t nbytes, bool host) {
  if (nbytes >= MUCH && nbytes > (host ? most_host_ : upstream_.total_bytes())) throw OutOfMemory();
}

/* Throw OutOfMemory if there is no room for `nbytes` of new pages, as far as that shows at once. */
void ExpandableAllocator::check_room(uint64_t nbytes, bool host) {
  if (host ? ledger_.host() + pages_.stray_on_host() + nbytes > most_host_ : exceeds_limit(nbytes)) throw OutOfMemory();
  if (!host && nbytes >= MUCH && nbytes > upstream_.free_bytes()) pages_.probe(nbytes);
}

/* Let the pages of the plan stand in `space`, and return the last free part that they belong to there. */
Block *ExpandableAllocator::carry_out(Space *space) {
  for (const Source &source : plan_.sources) {
    Stamps *stamps = space_at(source.span)->stamps.get();
    const bool in_order = most_aliases_ != 0 && stamps == space->stamps.get();
    source.page->freed_stamps = in_order ? stamps : nullptr;
    source.page->freed_stamp = in_order ? source.span->stamp : 0;
    if (!in_order) stamps->wait(source.span->stamp);
  }
  prepare(plan_.moves.size());
  for (const Move &move : plan_.moves) space->range_of(move.address)->prepare(move.address, move.address + move.nbytes);
  std::vector<uint64_t> was;
  for (const Source &source : plan_.sources) was.push_back(source.page->address);
  if (std::any_of(plan_.moves.begin(), plan_.moves.end(), is_anew)) left_ = NO_LIMIT;
  and_then([&] { pages_.carry_out(plan_.moves, space->stream, carried_); }, [&] {
    for (size_t at = 0; at < was.size(); ++at) {
      const Source &source = plan_.sources[at];
      if (source.page->address == was[at]) continue;
      space_at(source.span)->unmapped(source.span, was[at], source.page->nbytes);
    }
  });
  Block *span = nullptr;
  for (size_t at = 0; at < carried_.size(); ++at) {
    span = space->mapped(carried_[at]);
    if (plan_.moves[at].page == nullptr) ++ledger_.num_device_alloc;
  }
  return span;
}

void ExpandableAllocator::Plan::begin() {
  moves.clear();
  sources.clear();
  coarse.clear();
}

void ExpandableAllocator::Plan::comes(uint64_t address, Block *span, Page *page) {
  moves.push_back({address, page->nbytes, page});
  sources.push_back({span, page});
}

void ExpandableAllocator::Plan::in_order() {
  std::sort(moves.begin(), moves.end(), [](const Move &a, const Move &b) { return a.address < b.address; });
  std::sort(sources.begin(), sources.end(),
            [](const Source &a, const Source &b) { return a.page->address > b.page->address; });
}

/* Plan to map what `opening` misses: with new pages up to `creatable` bytes, then with free ones while there are. */
void ExpandableAllocator::make_plan(Space *space, const Opening &opening, uint64_t creatable) {
  check_possible(opening.missing, space->host);
  plan_.begin();
  plan_.opening = opening;
  plan_.creatable = creatable;
  std::vector<Opening::Hole> runs = opening.holes;
  int64_t wanted = creatable >= opening.missing ? 0 : int64_t(opening.missing - creatable);
  if (wanted > 0 && pages_.has_aliases())
    returning(space->host).each_within(opening, [&](const Alias &alias, Block *span) {
      plan_.comes(alias.address, span, alias.page);
      wanted -= int64_t(alias.page->nbytes);
      take_out(&runs, alias.address, alias.end());
    });
  if (wanted > 0) {
    const size_t coming = plan_.sources.size();
    auto is_coming = [&](const Page *page) {
      return std::any_of(plan_.sources.begin(), plan_.sources.begin() + ptrdiff_t(coming),
                         [&](const Source &source) { return source.page == page; });
    };
    uint64_t start = opening.address / granularity_ * granularity_, end = opening.address + opening.nbytes;
    for (Block *span : movable(space)) {
      uint64_t at = span->end();
      while (Page *page = wanted > 0 ? space_at(span)->page_before(span, &at) : nullptr) {
        if (is_coming(page) || (start < page->address + page->nbytes && page->address < end)) continue;
        auto run = std::find_if(runs.begin(), runs.end(),
                                [&](const Opening::Hole &hole) { return hole.end - hole.start >= page->nbytes; });
        if (run == runs.end()) {
          plan_.coarse.push_back({span, page});
          continue;
        }
        plan_.comes(run->start, span, page);
        run->start += page->nbytes;
        wanted -= int64_t(page->nbytes);
      }
      if (wanted <= 0) break;
    }
  }
  plan_.fresh = 0;
  for (const Opening::Hole &run : runs) plan_.fresh += run.end - run.start;
  const uint64_t largest = page_size(space->stream);
  for (const Opening::Hole &run : runs) new_pages(run.start, run.end, largest, space->host, plan_.moves);
  plan_.in_order();
}

/* Append new pages from `start` to `end` to `moves`, of at most `largest` bytes each. */
void ExpandableAllocator::new_pages(uint64_t start, uint64_t end, uint64_t largest, bool host,
                                    std::vector<Move> &moves) const {
  while (start < end) {
    const uint64_t size = std::min(largest, power_of_two(end - start, granularity_));
    moves.push_back({start, size, nullptr, host});
    start += size;
  }
}

/* Free parts of a page or more, in the order in which their pages move (expandable.py). */
std::vector<Block *> ExpandableAllocator::movable(const Space *space) {
  const bool own_last = recurrence_.repeats_as_a_whole();
  const auto rank = [&](const Block *span) {
    return std::make_pair((span->home == space) == own_last, order_of(span));
  };
  std::vector<Block *> spans;
  for (const Space *other : movable_spaces(space->host)) other->each_free([&](Block *span) { spans.push_back(span); });
  std::sort(spans.begin(), spans.end(), [&](const Block *a, const Block *b) { return rank(a) < rank(b); });
  return spans;
}

uint64_t ExpandableAllocator::page_size(uint64_t stream) {
  const uint64_t reserved = ledger_.reserved();
  if (gave_back_ && !is_kept(stream)) { /* less may be left now than there was when it was reserved */
    most_reserved_ = std::min(most_reserved_, (reserved + room()) / 2);
    gave_back_ = false;
  }
  most_reserved_ = std::max(most_reserved_, reserved);
  return power_of_two(most_reserved_ / PAGES_OF_ALL, granularity_);
}

void ExpandableAllocator::place_in_new_range(Space *space, uint64_t nbytes, Opening *opening) {
  uint64_t least = round_up(nbytes, granularity_);
  range_ = std::min(range_, add_range(space, std::max(range_, least), least, granularity_));
  best_opening(*space, nbytes, nullptr, opening);
}

/* Reserve `size` bytes of address space. Returns how many: where the driver refuses, half as much is asked for, in whole
 * `unit`, and so on down to `least`. */
uint64_t ExpandableAllocator::add_range(Space *space, uint64_t size, uint64_t least, uint64_t unit) {
  std::vector<Space *> ownerless;
  for (const auto &left : ownerless_) ownerless.push_back(left.get());
  drop_empty_ranges(ownerless);
  uint64_t address = 0;
  for (bool refused = true; refused;) {
    try {
      address = upstream_.reserve_range(size);
      refused = false;
    } catch (const Stopped &) {
      if (size == least) throw;
    }
    if (refused) size = std::max(size / 2 / unit * unit, least);
  }
  space->add(std::make_unique<Range>(address, size, granularity_));
  return size;
}

/* --- giving memory back */

uint64_t ExpandableAllocator::release_unused() {
  gave_back_ = true;
  pages_.begin();
  uint64_t total = give_back_free(movable_spaces(false));
  pages_.release_strays();
  drop_empty_ranges(every_space());
  return total;
}

void ExpandableAllocator::release_left(uint64_t stream) {
  pages_.begin();
  std::vector<Space *> left;
  for (const auto &space : ownerless_)
    if (space->stream == stream && !space->asleep) left.push_back(space.get());
  give_back_free(left);
  drop_empty_ranges(left);
}

/* Give host pages back, beyond what is kept for the next time, that no queued work touches. */
void ExpandableAllocator::trim_host() {
  int64_t excess = int64_t(free_on_host()) - int64_t(most_host_ / MOST_IDLE);
  if (excess <= 0) return;
  std::vector<Source> leaving = every_free_page(movable_spaces(true));
  drop_if(leaving, [](const Source &one) { return one.span->stamp > space_at(one.span)->stamps->passed; });
  give_back_first(leaving, excess);
}

/* Give back the free pages of `spaces`, and return their bytes. */
uint64_t ExpandableAllocator::give_back_free(const std::vector<Space *> &spaces) {
  std::vector<Source> leaving = every_free_page(spaces);
  uint64_t total = 0;
  for (const Source &source : leaving) {
    space_at(source.span)->stamps->wait(source.span->stamp);
    total += source.page->nbytes;
  }
  prepare(leaving.size());
  for (const Source &source : leaving) give_back(source);
  return total;
}

/* Give back the first of `leaving` that together hold `nbytes`, or all. */
void ExpandableAllocator::give_back_first(const std::vector<Source> &leaving, int64_t nbytes) {
  if (nbytes > 0) prepare(leaving.size());
  for (const Source &source : leaving) {
    if (nbytes <= 0) break;
    nbytes -= int64_t(source.page->nbytes);
    give_back(source);
  }
}

void ExpandableAllocator::release_all() {
  wake_all();
  release_beyond();
  release_unused();
  for (const auto &stream : streams_) stream->stamps->drop();
}

std::vector<Source> ExpandableAllocator::every_free_page(const std::vector<Space *> &spaces) {
  std::vector<Source> found;
  for (const Space *space : spaces)
    space->each_free([&](Block *span) {
      uint64_t at = span->end();
      while (Page *page = space->page_before(span, &at)) found.push_back({span, page});
    });
  return found;
}

void ExpandableAllocator::give_back(const Source &source) {
  Space *space = space_at(source.span);
  uint64_t address = source.page->address;
  space->stamps->wait(source.span->stamp);
  and_then([&] { pages_.give_back(source.page); }, [&] {
    if (source.page->address != 0) return;
    space->unmapped(source.span, address, source.page->nbytes);
    ++ledger_.num_device_free;
  });
}

/* Make sure that noting `steps` pages mapped or unmapped anywhere cannot fail for want of host memory. */
void ExpandableAllocator::prepare(size_t steps) {
  for (const auto &space : spaces_) space->prepare_steps(2 * steps);
  for (const auto &space : ownerless_) space->prepare_steps(2 * steps);
}

void ExpandableAllocator::drop_empty_ranges(const std::vector<Space *> &spaces) {
  for (Space *space : spaces) {
    std::vector<const Range *> empty;
    for (const auto &range : space->ranges)
      if (Space::is_empty(*range)) empty.push_back(range.get());
    for (const Range *range : empty) {
      pages_.clear(range->address, range->address + range->nbytes);
      upstream_.free_range(range->address, range->nbytes);
      space->remove(range);
    }
  }
  drop_if(ownerless_, [](const auto &space) { return space->ranges.empty(); });
}

void ExpandableAllocator::forget(uint64_t stream) {
  Stream *found = stream_of(stream);
  if (found == nullptr) return;
  auto is_its = [&](const auto &space) { return space->stamps == found->stamps; };
  bool any_left = std::any_of(ownerless_.begin(), ownerless_.end(), is_its);
  const std::vector<Space *> spaces = found->all();
  for (const Space *space : spaces) any_left = any_left || !space->ranges.empty();
  if (any_left)
    found->stamps->forget();
  else
    found->stamps->drop();
  for (const Space *space : spaces) give_up(space);
  latest_ = nullptr;
  by_stream_.erase(stream);
  drop_if(streams_, [&](const auto &other) { return other.get() == found; });
}

/* Allocate nothing in `space` any more. It goes at once if it is empty. */
void ExpandableAllocator::give_up(const Space *space) {
  auto place = std::find_if(spaces_.begin(), spaces_.end(), [&](const auto &other) { return other.get() == space; });
  if (!space->ranges.empty()) ownerless_.push_back(std::move(*place));
  spaces_.erase(place);
}

/* --- the map */

std::vector<Space *> ExpandableAllocator::every_space() const {
  std::vector<Space *> found;
  for (const auto &space : spaces_) found.push_back(space.get());
  for (const auto &space : ownerless_) found.push_back(space.get());
  return found;
}

/* Those of the device, or of the host, whose pages may be moved or given back: not the private pools, and not what
 * sleeps. */
std::vector<Space *> ExpandableAllocator::movable_spaces(bool host) const {
  std::vector<Space *> found = every_space();
  drop_if(found, [&](const Space *space) { return space->host != host || stays(space) || space->asleep; });
  return found;
}

void ExpandableAllocator::pages_behind(const Block *block, std::vector<Page *> &pages) const {
  const Range *range = space_at(block)->range_of(block->address);
  for (uint64_t at = block->address; at < block->address + block->nbytes; at = pages.back()->address + pages.back()->nbytes)
    pages.push_back(range->page_at(at));
}

void ExpandableAllocator::map_segments(std::vector<cuplug_segment> &segments, std::vector<cuplug_piece> &pieces) {
  for (const Space *space : every_space()) {
    const int flags =
        CUPLUG_EXPANDABLE | (space->asleep ? CUPLUG_SEGMENT_ASLEEP : 0) | (space->host ? CUPLUG_SEGMENT_ON_HOST : 0) |
        int(space->tag << CUPLUG_TAG_SHIFT);
    for (const auto &range : space->ranges) {
      bool goes_on = false; /* whether a part that is no hole stands before this one */
      for (const Block *part = range->first; part != nullptr; part = part->after) {
        if (part->kind == HOLE) {
          goes_on = false;
          continue;
        }
        if (!goes_on) segments.push_back({part->address, 0, space->stream, pieces.size(), 0, space->small, flags});
        segments.back().nbytes += part->nbytes;
        segments.back().piece_count += 1;
        add_piece(pieces, part);
        goes_on = true;
      }
    }
  }
}

}  // namespace cuplug

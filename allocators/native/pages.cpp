#include "pages.h"

#include <algorithm>

namespace cuplug {

namespace {

/* Call `work`, and pass over what fails: as in a device that is lost, what can be put back is put back. */
template <class Work>
void suppressing(Work work) {
  try {
    work();
  } catch (const Failed &) {
  }
}

/* Call `work` with the first address and the end of each row of `moves` without a gap. */
template <class Work>
void each_run(const std::vector<Move> &moves, Work work) {
  for (size_t at = 0; at < moves.size();) {
    uint64_t start = moves[at].address, end = start;
    for (; at < moves.size() && moves[at].address == end; ++at) end += moves[at].nbytes;
    work(start, end);
  }
}

}  // namespace

void Pages::begin() {
  for (Page *page : gone_) spare_.give(page);
  gone_.clear();
}

void Pages::carry_out(const std::vector<Move> &moves, uint64_t stream, std::vector<Page *> &pages) {
  std::vector<Origin> origins;
  origins.reserve(moves.size());
  pages.clear();
  pages.reserve(moves.size());
  prepare(moves.size());
  aliases_.reserve(aliases_.size() + moves.size());
  std::vector<Move> anew;
  std::vector<size_t> mapped; /* which of the moves the driver has made */
  mapped.reserve(moves.size());
  for (const Move &move : moves) {
    if (is_anew(move)) anew.push_back(move);
    if (move.page == nullptr) continue;
    origins.push_back({move.page, move.page->address});
    move.page->aliases.reserve(move.page->aliases.size() + 1);
  }
  try {
    create_new(moves, pages);
    each_run(anew, [this](uint64_t start, uint64_t end) { clear(start, end); });
    if (most_aliases_ == 0)
      for (const Origin &origin : origins) unmap(origin.page);
    for (size_t at = 0; at < moves.size(); ++at) {
      if (pages[at]->has_alias(moves[at].address)) continue;
      map(pages[at], moves[at].address);
      mapped.push_back(at);
    }
    each_run(anew, [this](uint64_t start, uint64_t end) { upstream_.set_access(start, end - start); });
  } catch (...) {
    undo(moves, pages, mapped);
    throw;
  }
  for (const Origin &origin : origins) {
    origin.page->told = 0;
    events_.emit(PAGE_UNMAP, origin.page->stream, origin.address, origin.page->nbytes, origin.page->handle);
  }
  for (size_t at = 0; at < moves.size(); ++at) {
    if (moves[at].page != nullptr) leave(pages[at]);
    arrive(pages[at], moves[at].address);
    tell_mapped(pages[at], stream, moves[at].page == nullptr);
  }
  for (const Origin &origin : origins)
    suppressing([&] { /* what the driver will not unmap now stays an alias */
      while (origin.page->aliases.size() > most_aliases_) drop(origin.page->aliases.front());
    });
}

std::vector<Alias> Pages::within(uint64_t start, uint64_t end) const {
  auto first = std::lower_bound(aliases_.begin(), aliases_.end(), start,
                                [](const Alias &alias, uint64_t address) { return alias.address < address; });
  std::vector<Alias> found;
  for (; first != aliases_.end() && first->address < end; ++first)
    if (first->end() <= end) found.push_back(*first);
  return found;
}

void Pages::clear(uint64_t start, uint64_t end) {
  auto first = std::upper_bound(aliases_.begin(), aliases_.end(), start,
                                [](uint64_t address, const Alias &alias) { return address < alias.end(); });
  std::vector<uint64_t> found;
  for (; first != aliases_.end() && first->address < end; ++first) found.push_back(first->address);
  for (uint64_t address : found) drop(address);
}

void Pages::give_back(Page *page) {
  gone_.reserve(gone_.size() + stray_.size() + 2);
  stray_.reserve(stray_.size() + 1);
  drop_aliases(page);
  unmap(page);
  try {
    upstream_.release_page(page->handle);
  } catch (const Failed &) {
    map_back(page);
    throw;
  }
  gone_.push_back(page);
  page->address = 0;
  tell_gone(page);
}

void Pages::retire(const std::vector<Page *> &pages) {
  stray_.reserve(stray_.size() + pages.size());
  gone_.reserve(gone_.size() + stray_.size() + pages.size());
  for (Page *page : pages) {
    page->retired = true;
    for (uint64_t address : page->aliases) aliases_.erase(alias_at(address)); /* they go with the page */
    discard(page);
    if (page->told != 0) tell_gone(page);
  }
}

Page *Pages::stand_in(uint64_t address, uint64_t nbytes) {
  Page *page = spare_.take();
  *page = Page{};
  page->address = address;
  page->nbytes = nbytes;
  return page;
}

/* --- pages that take the places of others */

void Pages::prepare(size_t pages) {
  spare_.reserve(pages);
  stray_.reserve(stray_.size() + pages);
  gone_.reserve(gone_.size() + stray_.size() + pages);
}

void Pages::make_aside(const std::vector<Move> &moves, uint64_t start, std::vector<Page *> &made) {
  made.reserve(moves.size());
  create_new(moves, made);
  uint64_t at = start;
  for (Page *page : made) {
    stand_at(page, at);
    at += page->nbytes;
  }
  upstream_.set_access(start, at - start);
}

void Pages::stand(const std::vector<Page *> &pages, size_t *at, const std::vector<Move> &moves) {
  for (const Move &move : moves) stand_at(pages[(*at)++], move.address);
  each_run(moves, [this](uint64_t start, uint64_t end) { upstream_.set_access(start, end - start); });
}

void Pages::put_back(const std::vector<Page *> &pages) {
  suppressing([&] {
    for (Page *page : pages) {
      if (page->mapped) continue;
      stand_at(page, page->address);
      upstream_.set_access(page->address, page->nbytes);
    }
  });
}

void Pages::tell_mapped(Page *page, uint64_t stream, bool is_new) {
  if (is_new)
    events_.emit(page->host ? HOST_PAGE_CREATE : PAGE_CREATE, stream, page->handle, page->nbytes, page->nbytes);
  page->stream = stream;
  page->told = page->address;
  events_.emit(PAGE_MAP, stream, page->address, page->nbytes, page->handle);
}

/* --- what the driver refused */

void Pages::release_strays() {
  gone_.reserve(gone_.size() + stray_.size());
  while (!stray_.empty()) {
    Page *page = stray_.back();
    if (page->retired && page->mapped) unmap(page);
    while (page->retired && !page->aliases.empty()) {
      upstream_.unmap(page->aliases.front(), page->nbytes);
      page->aliases.erase(page->aliases.begin());
    }
    upstream_.release_page(page->handle);
    gone_.push_back(page);
    stray_.pop_back();
  }
}

uint64_t Pages::stray_on_host() const {
  uint64_t nbytes = 0;
  for (const Page *page : stray_)
    if (page->host) nbytes += page->nbytes;
  return nbytes;
}

/* --- one call of the driver each, and what is known of it */

/* Append the page of each move to `pages`, a new one where it has none. Throws: the pages before the one that failed are
 * there. */
void Pages::create_new(const std::vector<Move> &moves, std::vector<Page *> &pages) {
  for (const Move &move : moves) pages.push_back(move.page != nullptr ? move.page : create(move.nbytes, move.host));
}

Page *Pages::create(uint64_t nbytes, bool host) {
  spare_.reserve(1);
  stray_.reserve(stray_.size() + 1);
  uint64_t handle = host ? upstream_.create_host_page(nbytes) : upstream_.create_page(nbytes);
  Page *page = spare_.take();
  *page = Page{};
  page->handle = handle;
  page->nbytes = nbytes;
  page->host = host;
  return page;
}

void Pages::stand_at(Page *page, uint64_t address) {
  map(page, address);
  page->address = address;
  page->mapped = true;
}

void Pages::unmap(Page *page) {
  upstream_.unmap(page->address, page->nbytes);
  page->mapped = false;
}

/* --- aliases */

/* `page` moves away: if it stays mapped where it stands, that is an alias from now on. */
void Pages::leave(Page *page) {
  if (!page->mapped) return;
  page->aliases.push_back(page->address);
  aliases_.insert(alias_at(page->address), {page->address, page, page->freed_stamps, page->freed_stamp});
}

void Pages::arrive(Page *page, uint64_t address) {
  page->address = address;
  page->mapped = true;
  auto found = std::find(page->aliases.begin(), page->aliases.end(), address);
  if (found == page->aliases.end()) return;
  page->aliases.erase(found);
  aliases_.erase(alias_at(address));
}

/* The alias at `address`, or the next one behind it. */
Pages::Aliases::iterator Pages::alias_at(uint64_t address) {
  return std::lower_bound(aliases_.begin(), aliases_.end(), address,
                          [](const Alias &alias, uint64_t at) { return alias.address < at; });
}

/* Unmap the alias at `address`. Throws Failed. */
void Pages::drop(uint64_t address) {
  auto found = alias_at(address);
  Page *page = found->page;
  if (found->stamps != nullptr) found->stamps->wait(found->stamp);
  upstream_.unmap(address, page->nbytes);
  page->aliases.erase(std::find(page->aliases.begin(), page->aliases.end(), address));
  aliases_.erase(found);
}

void Pages::drop_aliases(Page *page) {
  while (!page->aliases.empty()) drop(page->aliases.front());
}

/* --- when a call fails */

void Pages::undo(const std::vector<Move> &moves, const std::vector<Page *> &pages, const std::vector<size_t> &mapped) {
  for (auto at = mapped.rbegin(); at != mapped.rend(); ++at)
    suppressing([&] { upstream_.unmap(moves[*at].address, moves[*at].nbytes); });
  for (Page *page : pages)
    if (page->address != 0 && !page->mapped) map_back(page);
  for (size_t at = 0; at < pages.size(); ++at)
    if (moves[at].page == nullptr) discard(pages[at]);
}

void Pages::map_back(Page *page) {
  try {
    stand_at(page, page->address);
    try {
      upstream_.set_access(page->address, page->nbytes);
    } catch (const Failed &) {
      unmap(page);
    }
  } catch (const Failed &) {
  } catch (const OutOfMemory &) {
  }
  if (page->mapped) return;
  page->address = 0;
  discard(page);
  tell_gone(page);
}

void Pages::discard(Page *page) {
  stray_.push_back(page);
  suppressing([&] { release_strays(); });
}

void Pages::tell_gone(Page *page) {
  events_.emit(PAGE_UNMAP, page->stream, page->told, page->nbytes, page->handle);
  page->told = 0;
  events_.emit(page->host ? HOST_PAGE_RELEASE : PAGE_RELEASE, page->stream, page->handle, page->nbytes, page->nbytes);
}

}  // namespace cuplug

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
  spare_.reserve(moves.size());
  stray_.reserve(stray_.size() + moves.size());
  gone_.reserve(gone_.size() + stray_.size() + moves.size());
  for (const Move &move : moves)
    if (move.page != nullptr) origins.push_back({move.page, move.page->address});
  try {
    for (const Move &move : moves) pages.push_back(move.page != nullptr ? move.page : create(move.nbytes));
    for (const Origin &origin : origins) unmap(origin.page);
    for (size_t at = 0; at < moves.size(); ++at) map(pages[at], moves[at].address);
    set_access(moves);
  } catch (...) {
    undo(moves, pages, origins);
    throw;
  }
  for (const Origin &origin : origins) {
    origin.page->told = 0;
    events_.emit(PAGE_UNMAP, origin.page->stream, origin.address, origin.page->nbytes, origin.page->handle);
  }
  for (size_t at = 0; at < moves.size(); ++at) {
    Page *page = pages[at];
    if (moves[at].page == nullptr) events_.emit(PAGE_CREATE, stream, page->handle, page->nbytes, page->nbytes);
    page->stream = stream;
    page->told = page->address;
    events_.emit(PAGE_MAP, stream, page->address, page->nbytes, page->handle);
  }
}

void Pages::give_back(Page *page) {
  uint64_t address = page->address;
  gone_.reserve(gone_.size() + stray_.size() + 2);
  stray_.reserve(stray_.size() + 1);
  unmap(page);
  try {
    upstream_.release_page(page->handle);
  } catch (const Failed &) {
    map_back(page, address);
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

void Pages::release_strays() {
  gone_.reserve(gone_.size() + stray_.size());
  while (!stray_.empty()) {
    if (stray_.back()->retired && stray_.back()->mapped) unmap(stray_.back());
    upstream_.release_page(stray_.back()->handle);
    gone_.push_back(stray_.back());
    stray_.pop_back();
  }
}

/* --- one call of the driver each, and what is known of it */

Page *Pages::create(uint64_t nbytes) {
  spare_.reserve(1);
  stray_.reserve(stray_.size() + 1);
  uint64_t handle = upstream_.create_page(nbytes);
  Page *page = spare_.take();
  *page = Page{};
  page->handle = handle;
  page->nbytes = nbytes;
  return page;
}

void Pages::map(Page *page, uint64_t address) {
  page->address = address;
  upstream_.map(address, page->nbytes, page->handle);
  page->mapped = true;
}

void Pages::unmap(Page *page) {
  upstream_.unmap(page->address, page->nbytes);
  page->mapped = false;
}

/* Make accessible what `moves` have mapped: one call for each range without a gap. */
void Pages::set_access(const std::vector<Move> &moves) {
  for (size_t at = 0; at < moves.size();) {
    uint64_t start = moves[at].address, end = start;
    for (; at < moves.size() && moves[at].address == end; ++at) end += moves[at].nbytes;
    upstream_.set_access(start, end - start);
  }
}

/* --- when a call fails */

void Pages::undo(const std::vector<Move> &moves, const std::vector<Page *> &pages, const std::vector<Origin> &origins) {
  for (auto at = pages.rbegin(); at != pages.rend(); ++at) {
    Page *page = *at;
    auto origin = std::find_if(origins.begin(), origins.end(), [&](const Origin &other) { return other.page == page; });
    bool is_there = origin != origins.end() && origin->address == page->address;
    if (page->mapped && !is_there) suppressing([&] { unmap(page); });
  }
  for (const Origin &origin : origins)
    if (!origin.page->mapped) map_back(origin.page, origin.address);
  for (size_t at = 0; at < pages.size(); ++at) {
    if (moves[at].page != nullptr) continue;
    pages[at]->address = 0;
    discard(pages[at]);
  }
}

void Pages::map_back(Page *page, uint64_t address) {
  try {
    map(page, address);
    try {
      upstream_.set_access(address, page->nbytes);
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
  events_.emit(PAGE_RELEASE, page->stream, page->handle, page->nbytes, page->nbytes);
}

}  // namespace cuplug

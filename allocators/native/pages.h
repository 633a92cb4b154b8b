/* The physical pages of an allocator, moved so that a failed call leaves them where they were (pages.py). */
#pragma once

#include <algorithm>
#include <vector>

#include "events.h"
#include "host.h"
#include "stamps.h"
#include "upstream.h"

namespace cuplug {

/* Physical memory behind one handle, serving one address or, while it is on its way, none (page.py). */
struct Page {
  uint64_t handle = 0;
  uint64_t nbytes = 0;
  uint64_t address = 0;           /* where it serves; 0 for nowhere */
  uint64_t stream = 0;            /* the stream for which it is mapped */
  uint64_t told = 0;              /* the address at which the observers know it to be mapped; 0 for nowhere */
  bool mapped = false;            /* whether the driver has mapped it at `address` */
  bool host = false;              /* whether it is memory of the host */
  bool shared = false;            /* whether other processes may have mapped it */
  bool retired = false;           /* whether it is to be unmapped and released, whatever stands behind its addresses later */
  std::vector<uint64_t> aliases;  /* where it is mapped besides, the longest out of use first */
  Stamps *freed_stamps = nullptr; /* when what it held where it stands was last freed, for its latest move; */
  uint64_t freed_stamp = 0;       /* null where that has been waited for */
  Page *next_spare = nullptr;

  bool has_alias(uint64_t at) const { return std::find(aliases.begin(), aliases.end(), at) != aliases.end(); }
};

/* An address at which a page is mapped that serves elsewhere. */
struct Alias {
  uint64_t address;
  Page *page;
  Stamps *stamps; /* when what lay there was last freed; null: no queued work touches it */
  uint64_t stamp;

  uint64_t end() const { return address + page->nbytes; }
};

/* The greatest power of two times `granularity` within `nbytes`; at least `granularity`. */
inline uint64_t power_of_two(uint64_t nbytes, uint64_t granularity) {
  uint64_t pages = nbytes / granularity;
  return pages == 0 ? granularity : granularity << (63 - __builtin_clzll(pages));
}

/* A page to be mapped at `address`: one from elsewhere, or (null) a new one of `nbytes`, of the host's memory perhaps. */
struct Move {
  uint64_t address;
  uint64_t nbytes;
  Page *page;
  bool host = false;
};

/* Whether the driver has to map it there. */
inline bool is_anew(const Move &move) { return move.page == nullptr || !move.page->has_alias(move.address); }

/* Creates, maps and releases the pages of one allocator. Observers are told of every step once it has taken effect. */
class Pages {
 public:
  Pages(Upstream &upstream, Events &events, uint64_t most_aliases)
      : upstream_(upstream), events_(events), most_aliases_(most_aliases) {}

  /* Objects of pages that are no more are used again from here on. */
  void begin();
  /* Create, unmap and map as `moves` say, for `stream`, and put the pages into `pages` in the same order. `moves` are in
   * order of address. No queued work touches a page that moves, but for work that `freed_stamps` tells of.
   *
   * Where pages may have aliases, a page stays mapped where it stood, and is not mapped anew where it is still mapped. Of
   * aliases in the way, and of those that are too many, the work queued on them is waited for.
   *
   * Throws OutOfMemory or Failed: every page is where it was, and no new one is left; only one that the driver refuses to
   * map back is given up, and has address 0. */
  void carry_out(const std::vector<Move> &moves, uint64_t stream, std::vector<Page *> &pages);
  bool has_aliases() const { return !aliases_.empty(); }
  /* All of them, in order of address. */
  const std::vector<Alias> &aliases() const { return aliases_; }
  /* The aliases that lie between two addresses as a whole, in order of address. */
  std::vector<Alias> within(uint64_t start, uint64_t end) const;
  /* Unmap every alias that reaches between two addresses. Throws Failed. */
  void clear(uint64_t start, uint64_t end);
  /* Ask whether the device has `nbytes` left, in one call instead of many that are to be undone. Throws. */
  void probe(uint64_t nbytes) { discard(create(nbytes, false)); }
  /* Unmap and release `page`. Throws Failed: the page is where it was; or it is given up, and has address 0. */
  void give_back(Page *page);
  /* Unmap and release `pages`, in use or not: their contents are lost. What the driver refuses now is tried again later
   * (`release_strays`). */
  void retire(const std::vector<Page *> &pages);
  /* Something that stands in a page's place while no memory does. */
  Page *stand_in(uint64_t address, uint64_t nbytes);
  void drop_stand_in(Page *page) { spare_.give(page); }
  /* --- pages that take the places of others (moving.cpp). `pages` new and old ones: nothing of what follows then fails for
   * want of host memory. */
  void prepare(size_t pages);
  /* Create the pages of `moves`, put them into `made`, and let them stand one behind the other from `start` on. Throws: those in
   * `made` are to be retired. */
  void make_aside(const std::vector<Move> &moves, uint64_t start, std::vector<Page *> &made);
  /* Unmap a page where it stands, that no queued work touches. It keeps its address and contents. Throws Failed. */
  void lift(Page *page) { unmap(page); }
  /* Let pages that were lifted, from the one numbered `*at` on, stand where `moves` say. Throws Failed. */
  void stand(const std::vector<Page *> &pages, size_t *at, const std::vector<Move> &moves);
  /* Let those of `pages` that were lifted stand where they stood, as far as the driver does it. */
  void put_back(const std::vector<Page *> &pages);
  /* Tell of a page that has taken its place for `stream`, and whether it was created for that. */
  void tell_mapped(Page *page, uint64_t stream, bool is_new);
  /* --- */
  /* Try again to unmap and release what the driver would not before. Throws Failed. */
  void release_strays();
  /* Bytes of the host that the driver would not take back yet. */
  uint64_t stray_on_host() const;

 private:
  struct Origin {
    Page *page;
    uint64_t address;
  };

  using Aliases = std::vector<Alias>;

  Page *create(uint64_t nbytes, bool host);
  void create_new(const std::vector<Move> &moves, std::vector<Page *> &pages);
  void map(const Page *page, uint64_t address) { upstream_.map(address, page->nbytes, page->handle); }
  void stand_at(Page *page, uint64_t address);
  void unmap(Page *page);
  void undo(const std::vector<Move> &moves, const std::vector<Page *> &pages, const std::vector<size_t> &mapped);
  void map_back(Page *page);
  void leave(Page *page);
  void arrive(Page *page, uint64_t address);
  Aliases::iterator alias_at(uint64_t address);
  void drop(uint64_t address);
  void drop_aliases(Page *page);
  void discard(Page *page);
  void tell_gone(Page *page);

  Upstream &upstream_;
  Events &events_;
  const uint64_t most_aliases_;
  Aliases aliases_; /* of all pages, in order of address. They do not overlap. */
  Store<Page, 64> spare_;
  std::vector<Page *> gone_;  /* released, but perhaps still looked at by the operation under way */
  std::vector<Page *> stray_; /* of no use any more, and their release has failed so far */
};

}  // namespace cuplug

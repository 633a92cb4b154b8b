/* Physical pages on virtual memory, and moving them so that a failed call leaves the maps as they were (pages.py). */
#ifndef CUPLUG_PAGES_H
#define CUPLUG_PAGES_H

#include <vector>

#include "events.h"
#include "host.h"
#include "upstream.h"

namespace cuplug {

/* Physical memory behind one handle, mapped in one place or, while it is on its way, nowhere. */
struct Page {
  uint64_t handle = 0;
  uint64_t nbytes = 0;
  uint64_t address = 0; /* where it is mapped, or is to be; 0 for nowhere */
  uint64_t stream = 0;  /* the stream for which it is mapped */
  uint64_t told = 0;    /* the address at which the observers know it to be mapped; 0 for nowhere */
  bool mapped = false;  /* whether the driver has mapped it at `address` */
  bool retired = false; /* whether it is to be unmapped and released, whatever stands behind its addresses later */
  Page *next_spare = nullptr;
};

/* The greatest power of two times `granularity` within `nbytes`; at least `granularity`. */
inline uint64_t power_of_two(uint64_t nbytes, uint64_t granularity) {
  uint64_t pages = nbytes / granularity;
  return pages == 0 ? granularity : granularity << (63 - __builtin_clzll(pages));
}

/* A page to be mapped at `address`: one from elsewhere, or (null) a new one of `nbytes`. */
struct Move {
  uint64_t address;
  uint64_t nbytes;
  Page *page;
};

/* Creates, maps and releases the pages of one allocator. Observers are told of every step once it has taken effect. */
class Pages {
 public:
  Pages(Upstream &upstream, Events &events) : upstream_(upstream), events_(events) {}

  /* Objects of pages that are no more are used again from here on. */
  void begin();
  /* Create, unmap and map as `moves` say, for `stream`, and put the pages into `pages` in the same order. No queued work
   * touches a page that moves. `moves` are in order of address.
   *
   * Throws OutOfMemory or Failed: every page is where it was, and no new one is left; only one that the driver refuses to
   * map back is given up, and has address 0. */
  void carry_out(const std::vector<Move> &moves, uint64_t stream, std::vector<Page *> &pages);
  /* Ask whether the device has `nbytes` left, in one call instead of many that are to be undone. Throws. */
  void probe(uint64_t nbytes) { discard(create(nbytes)); }
  /* Unmap and release `page`. Throws Failed: the page is where it was; or it is given up, and has address 0. */
  void give_back(Page *page);
  /* Unmap and release `pages`, in use or not: their contents are lost. What the driver refuses now is tried again later
   * (`release_strays`). */
  void retire(const std::vector<Page *> &pages);
  /* Something that stands in a page's place while no memory does. */
  Page *stand_in(uint64_t address, uint64_t nbytes);
  void drop_stand_in(Page *page) { spare_.give(page); }
  /* Try again to unmap and release what the driver would not before. Throws Failed. */
  void release_strays();

 private:
  struct Origin {
    Page *page;
    uint64_t address;
  };

  Page *create(uint64_t nbytes);
  void map(Page *page, uint64_t address);
  void unmap(Page *page);
  void set_access(const std::vector<Move> &moves);
  void undo(const std::vector<Move> &moves, const std::vector<Page *> &pages, const std::vector<Origin> &origins);
  void map_back(Page *page, uint64_t address);
  void discard(Page *page);
  void tell_gone(Page *page);

  Upstream &upstream_;
  Events &events_;
  Store<Page, 64> spare_;
  std::vector<Page *> gone_;  /* released, but perhaps still looked at by the operation under way */
  std::vector<Page *> stray_; /* of no use any more, and their release has failed so far */
};

}  // namespace cuplug
#endif

/* The contract of every native allocator (base.py): policy, checks, statistics and locking, over a strategy's own. */
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "addresses.h"
#include "block.h"
#include "cuplug_allocator.h"
#include "events.h"
#include "gate.h"
#include "ledger.h"
#include "sorted.h"
#include "upstream.h"
#include "waiting.h"

struct cuplug_allocator {};

namespace cuplug {

/* Variables of a thread, reached without a call. glibc keeps room for a few of them in libraries that are loaded late;
 * other C libraries may not. */
#if defined(__GLIBC__)
#define CUPLUG_QUICK_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) __thread
#else
#define CUPLUG_QUICK_THREAD_LOCAL __thread
#endif
/* The tag of what the calling thread allocates; 0 for none. */
extern CUPLUG_QUICK_THREAD_LOCAL uint64_t memory_tag;

struct Page;

/* A map with what it points to. */
struct OwnedMap : cuplug_map {
  std::vector<cuplug_segment> owned_segments;
  std::vector<cuplug_piece> owned_pieces;
};

/* Hands out blocks of one device's memory. Every public method may be called from any thread, and answers one of the
 * numbers of the header. A strategy implements the pure methods below, which run under the mutex and throw OutOfMemory
 * and Failed. */
class Allocator : public cuplug_allocator {
 public:
  Allocator(const cuplug_upstream &table, uint64_t memory_limit);
  Allocator(const Allocator &) = delete;
  Allocator &operator=(const Allocator &) = delete;
  virtual ~Allocator();

  int allocate(uint64_t nbytes, uint64_t stream, uint64_t context, Block **block);
  int allocate_at(uint64_t address, uint64_t nbytes, uint64_t requested, uint64_t stream, uint64_t context,
                  Block **block);
  int free(Block *block, uint64_t context);
  int record_stream(Block *block, uint64_t stream, uint64_t context);
  int allocate_address(uint64_t nbytes, uint64_t stream, uint64_t *address);
  int free_address(uint64_t address);
  Block *find(uint64_t address);
  int release_cached(uint64_t *released);
  int forget_stream(uint64_t stream);
  bool has_pages() const { return can_sleep(); }
  int keep_segments_whole();
  int release_forgotten(uint64_t stream, uint64_t *released);
  int close();
  void abandon();
  int statistics(cuplug_statistics *statistics);
  int served(cuplug_served *served);
  /* Wait until a plan that is being worked out is there. */
  virtual int finish_planning() { return CUPLUG_OK; }
  int sleep(uint64_t tag, const cuplug_keeper *keeper, uint64_t *nbytes);
  int wake(uint64_t tag, uint64_t *nbytes);
  int move(uint64_t tag, bool to_host, const cuplug_copier &copier, uint64_t *nbytes);
  int sleeping(cuplug_sleeping *found, size_t most, size_t *count);
  int reset_peaks();
  int reset_accumulated();
  int segments(cuplug_map **map);
  int live_blocks(Block **blocks, size_t most, size_t *count);
  int share_pages(uint64_t address, cuplug_shared_page *pages, size_t most, size_t *count);
  int observe(bool on);
  int listen(cuplug_listener listener, void *context);

  Events &events() { return events_; }
  const Events &events() const { return events_; }
  void set_hooks(const cuplug_thread_hooks &hooks) { upstream_.set_hooks(hooks); }
  void set_out_of_memory_hook(cuplug_out_of_memory_hook hook, void *context);
  void set_beyond_hook(cuplug_beyond_hook hook, void *context);
  void set_memory_limit(uint64_t nbytes) { memory_limit_.store(nbytes, std::memory_order_relaxed); }
  void set_guard(uint64_t nbytes) { guard_.store(nbytes, std::memory_order_relaxed); }
  int state() const { return closed_.load(std::memory_order_relaxed); }
  /* Whether the calling thread is inside an operation. */
  bool is_mine() const { return owner_.load(std::memory_order_relaxed) == me(); }

 protected:
  /* --- what a strategy implements, called under the mutex */

  /* A new block of `nbytes` (`requested`, as `rounded` has rounded it), from the store. Throws OutOfMemory or Failed. */
  virtual Block *take(uint64_t requested, uint64_t nbytes, uint64_t stream) = 0;
  /* As `take`, from memory of another kind, when nothing else has helped. Throws OutOfMemory where there is none. */
  virtual Block *take_beyond(uint64_t, uint64_t, uint64_t) { throw OutOfMemory(); }
  /* Give back what of that kind no live block needs. */
  virtual void release_beyond() {}
  /* As `take` at `address`, in free memory that the stream holds; null where there is none. */
  virtual Block *take_at(uint64_t, uint64_t, uint64_t) { return nullptr; }
  /* Take `block` back. Throws nothing but std::bad_alloc, and then nothing has changed. */
  virtual void put(Block *block) = 0;
  /* Give back upstream whatever no live block needs, and return its bytes. May wait for fences. */
  virtual uint64_t release_unused() = 0;
  /* Put the map of what is held into `map`, in any order. */
  virtual void map_segments(std::vector<cuplug_segment> &segments, std::vector<cuplug_piece> &pieces) = 0;
  /* Append the pages behind `block`, in order of address. */
  virtual void pages_behind(const Block *, std::vector<Page *> &) const {}
  virtual void release_all() { release_unused(); } /* private pools too: is_kept() answers no */
  virtual uint64_t rounded(uint64_t nbytes) const { return aligned(nbytes); }
  /* Fence what is cached for `stream` and make it available to others. */
  virtual void forget(uint64_t stream) = 0;
  /* Give back what `stream`, which was forgotten, has left. */
  virtual void release_left(uint64_t) {}
  /* Cut no segment from now on. Whether it can do without. */
  virtual bool keep_whole() { return false; }
  /* Whether it can put tagged memory to sleep; then it has the next eight. */
  virtual bool can_sleep() const { return false; }
  /* Put what is tagged so to sleep, and return the bytes given back; 0 if it sleeps already. */
  virtual uint64_t fall_asleep(uint64_t, const cuplug_keeper *) { return 0; }
  /* Wake it, and return the bytes taken; 0 if it is awake. Throws OutOfMemory: it sleeps on. */
  virtual uint64_t rouse(uint64_t) { return 0; }
  /* The bytes that `rouse` would take. */
  virtual uint64_t needed(uint64_t) const { return 0; }
  /* Let what is tagged so lie on the host or on the device, and return the bytes taken there. Throws OutOfMemory: it lies
   * where it lay. */
  virtual uint64_t exchange(uint64_t, const cuplug_copier &, bool) { return 0; }
  /* The bytes that `exchange` would take. */
  virtual uint64_t to_move(uint64_t, bool) const { return 0; }
  virtual std::vector<cuplug_sleeping> asleep() { return {}; }
  virtual bool is_asleep(const Block *) const { return false; }
  /* How much a plan has served; null where the strategy follows none. */
  virtual const cuplug_served *served_by_plan() const { return nullptr; }
  /* Look whether fences of the strategy's own have passed. Called before each allocation. */
  virtual void poll() {}

  /* --- what a strategy uses, under the mutex */

  /* The answer of `work`, carried out under the mutex: for what a strategy offers beside the contract. */
  int operate_on(const std::function<void()> &work);

  static uint64_t aligned(uint64_t nbytes);
  /* The same in so many `steps` for each power of two: PyTorch's `round_size` (request.py). */
  static uint64_t rounded_to_steps(uint64_t nbytes, uint64_t steps);
  uint64_t memory_limit() const { return memory_limit_.load(std::memory_order_relaxed); }
  /* Whether the limit forbids `nbytes` more. */
  bool exceeds_limit(uint64_t nbytes) const {
    return memory_limit() != NO_LIMIT && ledger_.reserved() - ledger_.host() + nbytes > memory_limit();
  }
  /* Whether the free memory of `stream` stays where it is: it names a private pool. */
  bool is_kept(uint64_t stream) const { return keeps_pools_ && names_pool(stream); }
  /* Take memory from upstream within the limit, count it and tell of it. */
  uint64_t reserve(uint64_t nbytes, bool small, uint64_t stream);
  void release(uint64_t address, uint64_t nbytes, bool small, uint64_t stream);
  /* Append the entry of one part to a map. */
  static void add_piece(std::vector<cuplug_piece> &pieces, const Block *part);

  /* The blocks in use, in the order of their allocation. */
  std::vector<Block *> in_use();
  void poll_fences();
  void await_waiting();
  void check_open() const;

  Upstream upstream_; /* first, since fences all over the rest refer to it */
  Ledger ledger_;
  Store<Block> parts_;
  Runs runs_;
  Events events_;

 private:
  class Inside;
  struct Request;

  static const void *me();
  template <class Work>
  int operate(Work work);
  template <class Work>
  int whole(Work work);
  void poll_soon();

  int obtain(Request &request);
  bool serve(Request &request);
  template <class Attempt>
  bool find_room(Request &request, Attempt attempt);
  void hand_out(Block *block, Request &request);
  Block *attempt(const Request &request, uint64_t nbytes);
  bool attempt_on_tag(Request &request);
  uint64_t exchange_once_free(uint64_t tag, const cuplug_copier &copier, bool host);
  bool resort(Request &request);
  void tell_beyond(const Request &request);
  void note_shortage(uint64_t nbytes, uint64_t stream, uint64_t context);
  int allocate_nothing(uint64_t stream, Block **block);

  void give_back(Block *block, uint64_t context);
  void receive(Block *returned);
  void take_back_returned();
  void take_back(Block *block);
  void passed(Block *block);
  void hand_back(Block *block);
  void forget_everywhere(uint64_t stream);
  void fence_blocks_of(uint64_t stream, const std::vector<Block *> &blocks);
  void close_down();
  Uses *uses_of(Block *block);
  void add_stream(Block *block, uint64_t stream);
  void drop_uses(Block *block);
  cuplug_map *make_map();
  static void watch_forks();

  bool keeps_pools_ = true; /* until the end */
  Gate gate_; /* the mutex, and the blocks that were freed */
  std::atomic<const void *> owner_{nullptr};
  std::atomic<int> closed_{CUPLUG_OPEN};
  std::atomic<uint64_t> memory_limit_;
  std::atomic<uint64_t> guard_{0};
  Block *pending_ = nullptr;   /* freed blocks to be taken back, in order */
  Block *unsettled_ = nullptr; /* those that there was no host memory to take back */
  uint64_t serial_ = 0;
  Waiting waiting_;
  Store<Uses, 32> uses_;
  Addresses addresses_;
  cuplug_out_of_memory_hook hook_ = nullptr;
  void *hook_context_ = nullptr;
  cuplug_beyond_hook beyond_hook_ = nullptr;
  void *beyond_context_ = nullptr;
  std::atomic<bool> told_beyond_{false};
  pid_t process_;
  Allocator *next_ = nullptr; /* in the list of all of this process, which a fork abandons in the child */
  Allocator **place_ = nullptr;
};

/* What was short at the calling thread's last CUPLUG_OUT_OF_MEMORY. */
cuplug_shortage &last_shortage();

}  // namespace cuplug

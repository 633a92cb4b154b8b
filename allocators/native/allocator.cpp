#include "allocator.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "last_error.h"

namespace cuplug {

/* One call of `allocate`, from its beginning to its end. */
struct Allocator::Request {
  uint64_t nbytes, stream, context;
  Block *block = nullptr;
  int64_t available = 0; /* bytes that the device has free or the allocator holds unused, after the latest attempt */
  int64_t most_available = -1;
  uint64_t tag = 0; /* what is to wake or to move, if that is what was asked for; `nbytes` is then how much it takes */
  const cuplug_copier *copier = nullptr; /* what copies, if it is to move to the device */

  /* Whether to call the hook (again): its last answer has to have made more memory available than ever. */
  bool may_ask() {
    bool may = available > most_available;
    most_available = std::max(most_available, available);
    return may;
  }
};

/* Holds the mutex while it lives. Whoever has to wait for it lets go of what others may need to come out. */
class Allocator::Inside {
 public:
  explicit Inside(Allocator &allocator) : allocator_(allocator) {
    Block *returned = nullptr;
    if (!allocator_.gate_.try_enter(&returned)) returned = wait();
    begin(returned);
  }
  /* Once the caller has entered, and was given `returned`. */
  Inside(Allocator &allocator, Block *returned) : allocator_(allocator) { begin(returned); }
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;
  ~Inside() {
    allocator_.owner_.store(nullptr, std::memory_order_relaxed);
    allocator_.gate_.leave();
  }

 private:
  __attribute__((noinline)) Block *wait() {
    Block *returned = nullptr;
    LetGo let_go(allocator_.upstream_.hooks());
    allocator_.gate_.enter(&returned);
    return returned;
  }
  void begin(Block *returned) {
    allocator_.owner_.store(me(), std::memory_order_relaxed);
    if (returned == nullptr) return;
    if (returned->next_returned == nullptr && allocator_.pending_ == nullptr)
      allocator_.pending_ = returned; /* as a rule */
    else
      allocator_.receive(returned);
  }

  Allocator &allocator_;
};

/* --- forks
 *
 * A child that was forked has one thread and a copy of everything, also where C forked and Python is told nothing: the
 * device's memory is the parent's, and an allocator that another thread was inside would stay occupied for ever. So the
 * child abandons every allocator before it does anything else. */

namespace {
std::mutex all_mutex;
Allocator *all = nullptr;
}  // namespace

/* Have the C library abandon all allocators in each child from here on. */
void Allocator::watch_forks() {
  static const int watched = pthread_atfork([] { all_mutex.lock(); }, [] { all_mutex.unlock(); }, [] {
    for (Allocator *each = all; each != nullptr; each = each->next_) each->abandon();
    all_mutex.unlock();
  });
  (void)watched; /* it fails for want of memory only */
}

Allocator::Allocator(const cuplug_upstream &table, uint64_t memory_limit)
    : upstream_(table), memory_limit_(memory_limit), process_(getpid()) {
  watch_forks();
  std::lock_guard<std::mutex> lock(all_mutex);
  next_ = all;
  place_ = &all;
  if (next_ != nullptr) next_->place_ = &next_;
  all = this;
}

Allocator::~Allocator() {
  std::lock_guard<std::mutex> lock(all_mutex);
  *place_ = next_;
  if (next_ != nullptr) next_->place_ = place_;
}

/* --- the public contract */

int Allocator::allocate(uint64_t nbytes, uint64_t stream, uint64_t context, Block **block) {
  if (nbytes == 0) return allocate_nothing(stream, block);
  Request request{nbytes, stream, context};
  int answer = obtain(request);
  if (answer == CUPLUG_OK) *block = request.block;
  return answer;
}

/* Do what was asked for, asking the hook as often as it makes room. */
int Allocator::obtain(Request &request) {
  for (;;) {
    bool is_short = false;
    int answer = operate([&] { is_short = serve(request); });
    if (answer != CUPLUG_OK || !is_short) return answer;
    int wanted = hook_ != nullptr && request.may_ask() ? hook_(hook_context_, request.nbytes, request.stream) : 0;
    if (wanted < 0) return CUPLUG_FAILED;
    if (wanted == 0) {
      answer = operate([&] { is_short = !resort(request); });
      if (answer != CUPLUG_OK) return answer;
      if (is_short) return CUPLUG_OUT_OF_MEMORY;
      tell_beyond(request);
      return CUPLUG_OK;
    }
  }
}

int Allocator::sleep(uint64_t tag, const cuplug_keeper *keeper, uint64_t *nbytes) {
  *nbytes = 0;
  if (!can_sleep()) return CUPLUG_NOT_SUPPORTED;
  return operate([&] {
    check_open();
    poll_fences();
    await_waiting();
    *nbytes = fall_asleep(tag, keeper);
  });
}

int Allocator::wake(uint64_t tag, uint64_t *nbytes) {
  *nbytes = 0;
  if (!can_sleep()) return CUPLUG_NOT_SUPPORTED;
  Request request{0, 0, 0};
  request.tag = tag;
  int answer = tag == 0 ? CUPLUG_OK : obtain(request);
  if (answer == CUPLUG_OK) *nbytes = request.nbytes;
  return answer;
}

int Allocator::move(uint64_t tag, bool to_host, const cuplug_copier &copier, uint64_t *nbytes) {
  *nbytes = 0;
  if (!can_sleep()) return CUPLUG_NOT_SUPPORTED;
  if (tag == 0) return CUPLUG_OK;
  if (to_host)
    return operate([&] {
      try {
        *nbytes = exchange_once_free(tag, copier, true);
      } catch (const OutOfMemory &) {
        *nbytes = to_move(tag, true);
        throw;
      }
    });
  Request request{0, 0, 0};
  request.tag = tag;
  request.copier = &copier;
  const int answer = obtain(request);
  *nbytes = request.nbytes;
  return answer;
}

int Allocator::sleeping(cuplug_sleeping *found, size_t most, size_t *count) {
  return operate([&] {
    std::vector<cuplug_sleeping> all = asleep();
    *count = all.size();
    std::copy_n(all.begin(), std::min(most, all.size()), found);
  });
}

int Allocator::allocate_at(uint64_t address, uint64_t nbytes, uint64_t requested, uint64_t stream, uint64_t context,
                           Block **block) {
  if (nbytes == 0 || nbytes % ALIGNMENT != 0 || nbytes > MOST_BYTES || address % ALIGNMENT != 0 ||
      address > UINT64_MAX - nbytes || requested == 0 || requested > nbytes) {
    set_last_error("allocate_at: address and nbytes are multiples of 512 within what a device can have, and requested is "
                   "1 to nbytes");
    return CUPLUG_INVALID;
  }
  Request request{requested, stream, context};
  int answer = operate([&] {
    check_open();
    addresses_.prepare();
    poll_fences();
    Block *found = take_at(address, nbytes, stream);
    if (found == nullptr) throw OutOfMemory();
    hand_out(found, request);
  });
  if (answer == CUPLUG_OK) *block = request.block;
  return answer;
}

int Allocator::free(Block *block, uint64_t context) {
  if (block->owner != this || block->live.load(std::memory_order_acquire) == 0)
    return state() != CUPLUG_OPEN && block->owner == this ? CUPLUG_OK : CUPLUG_NOT_LIVE; /* close() took it back */
  block->live.store(0, std::memory_order_relaxed);
  give_back(block, context);
  return CUPLUG_OK;
}

int Allocator::record_stream(Block *block, uint64_t stream, uint64_t context) {
  if (block->owner != this || block->live.load(std::memory_order_acquire) == 0) return CUPLUG_NOT_LIVE;
  if ((stream == block->stream && !block->orphan) || block->nbytes == 0) return CUPLUG_OK;
  bool live = true;
  int answer = operate([&] {
    live = block->owner == this && block->live.load(std::memory_order_acquire) != 0; /* freed by another thread? */
    if (!live) return;
    add_stream(block, stream);
    events_.emit(RECORD_STREAM, stream, block->address, block->nbytes, block->requested, context);
  });
  return answer == CUPLUG_OK && !live ? CUPLUG_NOT_LIVE : answer;
}

int Allocator::allocate_address(uint64_t nbytes, uint64_t stream, uint64_t *address) {
  if (nbytes == 0) {
    *address = 0;
    return state() == CUPLUG_OPEN ? CUPLUG_OK : CUPLUG_CLOSED;
  }
  Block *block = nullptr;
  int answer = allocate(nbytes, stream, 0, &block);
  if (answer == CUPLUG_OK) *address = block->address;
  return answer;
}

int Allocator::free_address(uint64_t address) {
  if (address == 0) return CUPLUG_OK;
  if (!addresses_.kept()) find(address);
  Block *block = addresses_.find(address, true);
  if (block == nullptr) return state() != CUPLUG_OPEN ? CUPLUG_OK : CUPLUG_NOT_LIVE;
  give_back(block, 0);
  return CUPLUG_OK;
}

Block *Allocator::find(uint64_t address) {
  if (!addresses_.kept() && !is_mine()) {
    Inside inside(*this);
    if (!addresses_.kept()) addresses_.keep(in_use());
  }
  return addresses_.find(address, false);
}

int Allocator::release_cached(uint64_t *released) {
  return operate([&] {
    check_open();
    uint64_t held = ledger_.reserved();
    poll_fences();
    if (waiting_.empty()) ++ledger_.num_sync_all_streams;  // torch counts one without a wait, too
    await_waiting();
    release_beyond();
    release_unused();
    *released = held - ledger_.reserved();
    events_.emit(EMPTY_CACHE, 0, 0, *released, 0);
  });
}

int Allocator::forget_stream(uint64_t stream) {
  return operate([&] { forget_everywhere(stream); });
}

int Allocator::release_forgotten(uint64_t stream, uint64_t *released) {
  return operate([&] {
    check_open();
    uint64_t held = ledger_.reserved();
    poll_fences();
    for (const Block *block : in_use())
      if (block->waiting && block->stream == stream) {
        await_waiting();
        break;
      }
    release_left(stream);
    *released = held - ledger_.reserved();
  });
}

int Allocator::close() {
  return operate([&] { close_down(); });
}

void Allocator::abandon() {
  closed_.store(CUPLUG_WAS_ABANDONED, std::memory_order_relaxed);
  upstream_.abandon();
  if (getpid() != process_) { /* of the parent's threads none is here to let go of these */
    gate_.renew();
    owner_.store(nullptr, std::memory_order_relaxed);
    addresses_.renew();
    events_.drop();
    process_ = getpid();
  }
}

int Allocator::statistics(cuplug_statistics *statistics) {
  return operate([&] { ledger_.copy(statistics); });
}

int Allocator::served(cuplug_served *served) {
  if (served_by_plan() == nullptr) return CUPLUG_INVALID;
  return operate([&] { *served = *served_by_plan(); });
}

int Allocator::operate_on(const std::function<void()> &work) { return operate(work); }

int Allocator::reset_peaks() {
  return operate([&] {
    ledger_.reset_peaks();
    events_.emit(RESET_PEAKS, 0, 0, 0, 0);
  });
}

int Allocator::reset_accumulated() {
  return operate([&] { ledger_.reset_accumulated(); });
}

int Allocator::segments(cuplug_map **map) {
  return operate([&] {
    if (state() == CUPLUG_OPEN) poll_fences();
    *map = make_map();
  });
}

int Allocator::live_blocks(Block **blocks, size_t most, size_t *count) {
  return operate([&] {
    std::vector<Block *> found = in_use();
    drop_if(found, [](const Block *block) { return block->live.load() == 0; });
    std::sort(found.begin(), found.end(), [](const Block *a, const Block *b) { return a->address < b->address; });
    *count = found.size();
    std::copy_n(found.begin(), std::min(most, found.size()), blocks);
  });
}

int Allocator::observe(bool on) {
  return operate([&] { events_.observe(on); });
}

int Allocator::listen(cuplug_listener listener, void *context) {
  return operate([&] { events_.listen(listener, context); });
}

void Allocator::set_out_of_memory_hook(cuplug_out_of_memory_hook hook, void *context) {
  hook_ = hook;
  hook_context_ = context;
}

void Allocator::set_beyond_hook(cuplug_beyond_hook hook, void *context) {
  beyond_hook_ = hook;
  beyond_context_ = context;
}

/* --- operations */

const void *Allocator::me() { return reinterpret_cast<const void *>(pthread_self()); }

/* The answer of `work`, carried out under the mutex as a whole. */
template <class Work>
int Allocator::operate(Work work) {
  if (is_mine()) return CUPLUG_REENTERED;
  Inside inside(*this);
  return whole(work);
}

template <class Work>
int Allocator::whole(Work work) {
  try {
    if (state() == CUPLUG_OPEN) take_back_returned();
    work();
    return CUPLUG_OK;
  } catch (const Stopped &stopped) {
    return stopped.answer;
  } catch (const std::bad_alloc &) {
    return CUPLUG_NO_HOST_MEMORY;
  }
}

/* Do at once, unless a thread is inside, what the next operation would do first. What fails then fails at the next call
 * that waits. */
void Allocator::poll_soon() {
  Block *returned = nullptr;
  if (state() != CUPLUG_OPEN || is_mine() || !gate_.try_enter(&returned)) return;
  Inside inside(*this, returned);
  whole([&] { poll_fences(); });
}

void Allocator::poll_fences() {
  if (!waiting_.empty()) waiting_.poll([this](Block *block) { passed(block); });
  poll();
}

/* Block until no freed block waits for a stream any more. */
void Allocator::await_waiting() {
  if (waiting_.empty()) return;
  ++ledger_.num_sync_all_streams;
  waiting_.wait([this](Block *block) { passed(block); });
}

void Allocator::check_open() const {
  if (state() != CUPLUG_OPEN) throw Stopped{CUPLUG_CLOSED};
}

/* --- allocation */

/* Apart: inlined, it would have each allocation save the registers that this needs. */
__attribute__((noinline)) int Allocator::allocate_nothing(uint64_t stream, Block **made) {
  return operate([&] {
    check_open();
    Block *block = parts_.take(); /* as cudaMalloc(0) gives a null pointer; it is counted nowhere */
    block->address = block->nbytes = block->requested = 0;
    block->nothing = true;
    block->owner = this;
    block->stream = stream;
    block->user = nullptr;
    block->live.store(1, std::memory_order_release);
    *made = block;
  });
}

/* One pass through everything that the allocator itself can do. Whether memory is still short. */
bool Allocator::serve(Request &request) {
  check_open();
  if (request.tag != 0) return !find_room(request, [&] { return attempt_on_tag(request); });
  addresses_.prepare();
  if (request.nbytes > MOST_BYTES) return true; /* and no arithmetic is done with it */
  uint64_t nbytes = rounded(request.nbytes + guard_.load(std::memory_order_relaxed));
  Block *block = nullptr;
  bool found = find_room(request, [&] {
    block = attempt(request, nbytes);
    return block != nullptr;
  });
  if (found) hand_out(block, request);
  return !found;
}

/* Take memory of another kind, or note the shortage. Whether there was some. */
bool Allocator::resort(Request &request) {
  if (request.tag == 0 && request.nbytes <= MOST_BYTES) {
    check_open();
    addresses_.prepare();
    try {
      const uint64_t nbytes = rounded(request.nbytes + guard_.load(std::memory_order_relaxed));
      hand_out(take_beyond(request.nbytes, nbytes, request.stream), request);
      return true;
    } catch (const OutOfMemory &) {
    }
  }
  note_shortage(request.nbytes, request.stream, request.context);
  return false;
}

/* The first time, let the hook know. */
void Allocator::tell_beyond(const Request &request) {
  if (!told_beyond_.exchange(true, std::memory_order_relaxed) && beyond_hook_ != nullptr)
    beyond_hook_(beyond_context_, request.nbytes, request.stream);
}

/* Whether `attempt` succeeds, tried again after each thing that makes room. */
template <class Attempt>
bool Allocator::find_room(Request &request, Attempt attempt) {
  poll_fences();
  bool found = attempt();
  if (!found && !waiting_.empty()) {
    await_waiting();
    found = attempt();
  }
  if (!found && release_unused() != 0) {
    found = attempt();
    ledger_.num_alloc_retries += found;
  }
  if (!found) {
    int64_t lying = int64_t(ledger_.reserved() - ledger_.in_use());
    for (const cuplug_sleeping &one : asleep()) lying += int64_t(one.nbytes);
    request.available = int64_t(upstream_.free_bytes()) + lying;
  }
  return found;
}

bool Allocator::attempt_on_tag(Request &request) {
  const bool wakes = request.copier == nullptr;
  try {
    request.nbytes = wakes ? rouse(request.tag) : exchange_once_free(request.tag, *request.copier, false);
    return true;
  } catch (const OutOfMemory &) {
    request.nbytes = wakes ? needed(request.tag) : to_move(request.tag, false);
    return false;
  }
}

/* `exchange`, once no block waits for a stream. */
uint64_t Allocator::exchange_once_free(uint64_t tag, const cuplug_copier &copier, bool host) {
  check_open();
  poll_fences();
  await_waiting();
  return exchange(tag, copier, host);
}

/* `block` goes into the program's hands. */
void Allocator::hand_out(Block *block, Request &request) {
  block->kind = USED;
  block->requested = request.nbytes;
  block->stream = request.stream;
  block->owner = this;
  block->orphan = false;
  block->user = nullptr;
  block->serial = ++serial_;
  block->live.store(1, std::memory_order_release);
  addresses_.add(block);
  ledger_.allocated(block->nbytes, block->requested);
  events_.emit(ALLOCATE, block, request.context);
  request.block = block;
}

Block *Allocator::attempt(const Request &request, uint64_t nbytes) {
  try {
    return take(request.nbytes, nbytes, request.stream);
  } catch (const OutOfMemory &) {
    return nullptr;
  }
}

uint64_t Allocator::aligned(uint64_t nbytes) {
  constexpr uint64_t HUGE_SIZE = uint64_t(1) << 62; /* no device has it; sums of such stay numbers of 64 bits */
  return nbytes >= HUGE_SIZE ? HUGE_SIZE : round_up(nbytes, ALIGNMENT);
}

uint64_t Allocator::rounded_to_steps(uint64_t nbytes, uint64_t steps) {
  if (steps <= 1 || nbytes <= ALIGNMENT * steps || nbytes >= uint64_t(1) << 62) return aligned(nbytes);
  const uint64_t step = (uint64_t(1) << (63 - __builtin_clzll(nbytes))) / steps;
  return std::max(round_up(nbytes, step), ALIGNMENT);
}

uint64_t Allocator::reserve(uint64_t nbytes, bool small, uint64_t stream) {
  if (exceeds_limit(nbytes)) throw OutOfMemory();
  uint64_t address = upstream_.reserve(nbytes);
  ledger_.took_segment(nbytes, small);
  events_.emit(SEGMENT_RESERVE, stream, address, nbytes, nbytes);
  return address;
}

void Allocator::release(uint64_t address, uint64_t nbytes, bool small, uint64_t stream) {
  events_.announce(SEGMENT_RELEASE, stream, address, nbytes); /* while the memory is there: NCCL lets go of it then */
  try {
    upstream_.release(address);
  } catch (...) {
    events_.announce(SEGMENT_RESERVE, stream, address, nbytes); /* it is there again */
    throw;
  }
  ledger_.gave_segment(nbytes, small);
  events_.emit_announced(SEGMENT_RELEASE, stream, address, nbytes);
}

/* --- blocks that come back */

/* Tell of a free and put the block on the list of returned ones. Never blocks; may happen at any time. The caller has
 * made the block not live. */
void Allocator::give_back(Block *block, uint64_t context) {
  events_.emit(FREED, block, context);
  bool soon = block->has_streams.load(std::memory_order_relaxed) != 0;
  gate_.push(block);
  if (soon) poll_soon();
}

/* Put `returned`, a list with the latest first, behind what is pending. */
void Allocator::receive(Block *returned) {
  Block *first = nullptr; /* the same with the earliest first */
  for (Block *block = returned; block != nullptr;) {
    Block *earlier = block->next_returned;
    block->next_returned = first;
    first = block;
    block = earlier;
  }
  Block **end = &pending_;
  while (*end != nullptr) end = &(*end)->next_returned; /* there are some only after an operation that failed */
  *end = first;
}

void Allocator::take_back_returned() {
  while (unsettled_ != nullptr) {
    Block *block = unsettled_, *next = block->next_returned;
    put(block);
    unsettled_ = next;
  }
  while (pending_ != nullptr) {
    Block *block = pending_, *next = block->next_returned;
    bool is_back = block->kind != USED || block->waiting || block->live.load(std::memory_order_relaxed) != 0;
    if (!is_back) { /* else close() was as quick as the free, or it is a block of zero bytes */
      take_back(block);
    } else if (block->nothing) {
      block->nothing = false;
      parts_.give(block);
    }
    pending_ = next;
  }
}

/* Take a block out of the program's hands: the strategy gets it, once other streams have finished with it. */
void Allocator::take_back(Block *block) {
  if (block->has_streams.load(std::memory_order_relaxed) != 0) {
    Uses *uses = block->uses;
    uses->fences.reserve(uses->fences.size() + uses->streams.size());
    while (!uses->streams.empty()) {
      uint64_t stream = uses->streams.front();
      uses->fences.push_back({{stream, false}, upstream_.fence_or_refused(stream)});
      uses->streams.erase(uses->streams.begin());
    }
    block->has_streams.store(0, std::memory_order_relaxed);
    block->has_fences = true;
  }
  if (block->has_fences) waiting_.add(block);
  addresses_.remove(block);
  ledger_.freed(block->nbytes, block->requested);
  if (block->has_fences) {
    block->waiting = true;
    ledger_.change_waiting(1, block->nbytes);
  } else {
    if (block->uses != nullptr) drop_uses(block);
    hand_back(block);
  }
}

/* Every fence of `block` has passed. */
void Allocator::passed(Block *block) {
  events_.emit(FENCE_PASSED, block);
  block->waiting = false;
  ledger_.change_waiting(-1, block->nbytes);
  drop_uses(block);
  hand_back(block);
}

void Allocator::hand_back(Block *block) {
  try {
    put(block);
  } catch (const std::bad_alloc &) { /* the next operation tries again */
    block->next_returned = unsettled_;
    unsettled_ = block;
  }
}

Uses *Allocator::uses_of(Block *block) {
  if (block->uses == nullptr) block->uses = uses_.take();
  return block->uses;
}

/* Note that `stream` uses a block, too. */
void Allocator::add_stream(Block *block, uint64_t stream) {
  std::vector<uint64_t> &streams = uses_of(block)->streams;
  auto place = std::lower_bound(streams.begin(), streams.end(), stream);
  if (place == streams.end() || *place != stream) streams.insert(place, stream);
  block->has_streams.store(1, std::memory_order_relaxed);
}

void Allocator::drop_uses(Block *block) {
  Uses *uses = block->uses;
  block->uses = nullptr;
  block->has_fences = false;
  uses->streams.clear();
  uses->fences.clear();
  uses_.give(uses);
}

}  // namespace cuplug

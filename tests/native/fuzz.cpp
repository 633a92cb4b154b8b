/* Drives the native core with random programs, against a simple model of what must hold.
 *
 *     fuzz STRATEGY SEEDS THREADS OPERATIONS [FIRST_SEED]
 *
 * With one thread every rule is checked after each operation: blocks that are live, or wait for a stream, do not overlap
 * and lie in memory that is held and accessible; the counters are those of the model; what upstream was asked for is what the
 * allocator counts. With several, blocks are freed by other threads than those that allocated them, and the rules are
 * checked when all have come to rest. At the end everything has been given back. Events go into a trace's log, whose
 * records are counted at the end. "planned" runs programs that repeat themselves, and learns from them in a thread of its
 * own. */
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "allocators/native/events.h"
#include "cuplug_allocator.h"
#include "plugins/tracing/native/trace_log.h"

namespace {

constexpr uint64_t MIB = 1 << 20;

int seed_under_way = 0;
uint64_t planned_requests = 0; /* of all programs */

[[noreturn]] void fail(const char *rule) {
  std::fprintf(stderr, "seed %d breaks a rule: %s\n", seed_under_way, rule);
  std::abort();
}

void check(bool fine, const char *rule) {
  if (!fine) fail(rule);
}

/* A device that keeps account, fails at random, and whose fences pass late. Used under the allocator's mutex alone. */
class Device {
 public:
  Device(uint64_t seed, uint64_t memory, double failures) : memory_(memory), failures_(failures), random_(seed) {}

  cuplug_upstream table() {
    cuplug_upstream made{};
    made.context = this;
    made.granularity = 512;
    made.page_granularity = PAGE;
    made.reserve = [](void *self, uint64_t nbytes, uint64_t *address) { return of(self).reserve(nbytes, address); };
    made.release = [](void *self, uint64_t address) { return of(self).release(address); };
    made.memory_info = [](void *self, uint64_t *free, uint64_t *total) { return of(self).memory_info(free, total); };
    made.fence = [](void *self, uint64_t, void **fence) { return of(self).fence(fence); };
    made.fence_done = [](void *self, void *fence, int *done) { return of(self).fence_done(fence, done); };
    made.fence_wait = [](void *self, void *fence) { return of(self).fence_wait(fence); };
    made.fence_drop = [](void *self, void *fence) { of(self).fence_drop(fence); };
    made.reserve_range = [](void *self, uint64_t nbytes, uint64_t *address) {
      return of(self).reserve_range(nbytes, address);
    };
    made.free_range = [](void *self, uint64_t address, uint64_t nbytes) {
      return of(self).free_range(address, nbytes);
    };
    made.create_page = [](void *self, uint64_t nbytes, uint64_t *handle) {
      return of(self).create_page(nbytes, handle);
    };
    made.release_page = [](void *self, uint64_t handle) { return of(self).release_page(handle); };
    made.map = [](void *self, uint64_t address, uint64_t nbytes, uint64_t handle) {
      return of(self).map(address, nbytes, handle);
    };
    made.set_access = [](void *self, uint64_t address, uint64_t nbytes) {
      return of(self).set_access(address, nbytes);
    };
    made.unmap = [](void *self, uint64_t address, uint64_t nbytes) { return of(self).unmap(address, nbytes); };
    return made;
  }

  uint64_t most_aliases = 0; /* at how many addresses a page may stay mapped besides its own */

  void stop_failing() { failures_ = 0; }
  uint64_t used() const { return used_; }
  uint64_t free_bytes() const { return memory_ - used_; }
  size_t ranges() const { return ranges_.size(); }
  size_t fences() const { return fences_.size(); }
  bool has_failed() const { return has_failed_; }
  /* Whether work on the device may touch all of it. */
  bool is_accessible(uint64_t address, uint64_t nbytes) const {
    auto segment = segments_.upper_bound(address);
    if (segment != segments_.begin() && (--segment)->first + segment->second >= address + nbytes) return true;
    for (uint64_t at = address / PAGE * PAGE; at < address + nbytes;) {
      auto mapping = mapped_.upper_bound(at);
      if (mapping == mapped_.begin()) return false;
      --mapping;
      if (mapping->first + mapping->second.nbytes <= at || !mapping->second.accessible) return false;
      at = mapping->first + mapping->second.nbytes;
    }
    return true;
  }
  /* The physical memory behind what is mapped there. */
  struct Part {
    uint64_t handle, start, end;
    bool operator<(const Part &other) const { return std::tie(handle, start) < std::tie(other.handle, other.start); }
  };
  void add_memory(uint64_t address, uint64_t nbytes, std::vector<Part> *parts) const {
    for (const auto &[at, mapping] : mapped_) {
      const uint64_t start = std::max(at, address), end = std::min(at + mapping.nbytes, address + nbytes);
      if (start < end) parts->push_back({mapping.handle, start - at, end - at});
    }
  }

 private:
  static constexpr uint64_t PAGE = 2 * MIB;
  struct Mapping {
    uint64_t nbytes, handle;
    bool accessible;
  };

  static Device &of(void *self) { return *static_cast<Device *>(self); }

  bool fails() {
    bool now = failures_ > 0 && std::uniform_real_distribution<>()(random_) < failures_;
    has_failed_ = has_failed_ || now;
    return now;
  }
  bool take(uint64_t nbytes) {
    if (nbytes > memory_ - used_) return false;
    used_ += nbytes;
    return true;
  }

  int reserve(uint64_t nbytes, uint64_t *address) {
    if (fails()) return CUPLUG_FAILED;
    if (!take(nbytes)) return CUPLUG_OUT_OF_MEMORY;
    *address = next_;
    segments_[next_] = nbytes;
    next_ += nbytes + 512 * (random_() % 3);
    return CUPLUG_OK;
  }
  int release(uint64_t address) {
    if (fails()) return CUPLUG_FAILED;
    check(segments_.count(address) == 1, "a segment is released once");
    used_ -= segments_[address];
    segments_.erase(address);
    return CUPLUG_OK;
  }
  int memory_info(uint64_t *free, uint64_t *total) {
    *free = memory_ - used_;
    *total = memory_;
    return fails() ? CUPLUG_FAILED : CUPLUG_OK;
  }
  int fence(void **fence) {
    uint64_t number = ++last_fence_;
    bool refused = fails();
    if (refused && number % 2 == 0) return CUPLUG_FAILED; /* the other half leaves something for the error */
    *fence = reinterpret_cast<void *>(number);
    fences_[number] = refused;
    return refused ? CUPLUG_FAILED : CUPLUG_OK;
  }
  int fence_done(void *fence, int *done) {
    check(fences_.at(number_of(fence)) == false, "a refused fence is not asked");
    if (fails()) return CUPLUG_FAILED;
    if (random_() % 3 == 0) passed_ = std::max(passed_, number_of(fence));
    *done = number_of(fence) <= passed_;
    return CUPLUG_OK;
  }
  int fence_wait(void *fence) {
    if (fences_.at(number_of(fence)) || fails()) return CUPLUG_FAILED;
    passed_ = std::max(passed_, number_of(fence));
    return CUPLUG_OK;
  }
  void fence_drop(void *fence) { check(fences_.erase(number_of(fence)) == 1, "a fence is dropped once"); }
  static uint64_t number_of(void *fence) { return reinterpret_cast<uintptr_t>(fence); }

  int reserve_range(uint64_t nbytes, uint64_t *address) {
    if (fails()) return CUPLUG_FAILED;
    next_ = (next_ + PAGE - 1) / PAGE * PAGE;
    *address = next_;
    ranges_[next_] = nbytes;
    next_ += nbytes + PAGE;
    return CUPLUG_OK;
  }
  int free_range(uint64_t address, uint64_t nbytes) {
    if (fails()) return CUPLUG_FAILED;
    check(ranges_.count(address) == 1 && ranges_[address] == nbytes, "a range is freed as a whole");
    auto inside = mapped_.lower_bound(address);
    bool is_empty = inside == mapped_.end() || inside->first >= address + nbytes;
    if (has_failed_ && !is_empty) return CUPLUG_FAILED;
    check(is_empty, "nothing is mapped in a range that is freed");
    ranges_.erase(address);
    return CUPLUG_OK;
  }
  int create_page(uint64_t nbytes, uint64_t *handle) {
    if (fails()) return CUPLUG_FAILED;
    if (!take(nbytes)) return CUPLUG_OUT_OF_MEMORY;
    *handle = ++last_page_;
    pages_[*handle] = nbytes;
    return CUPLUG_OK;
  }
  int release_page(uint64_t handle) {
    if (fails()) return CUPLUG_FAILED;
    check(pages_.count(handle) == 1, "a page is released once");
    used_ -= pages_[handle];
    pages_.erase(handle);
    return CUPLUG_OK;
  }
  int map(uint64_t address, uint64_t nbytes, uint64_t handle) {
    if (fails()) return CUPLUG_FAILED;
    check(pages_.count(handle) == 1 && pages_[handle] == nbytes, "a page is mapped as a whole");
    uint64_t places = 0;
    for (const auto &mapping : mapped_) {
      bool apart = mapping.first + mapping.second.nbytes <= address || mapping.first >= address + nbytes;
      if (has_failed_ && !apart) return CUPLUG_FAILED; /* an earlier attempt could not be undone */
      check(apart, "mappings do not overlap");
      places += mapping.second.handle == handle;
    }
    check(has_failed_ || places <= (most_aliases == 0 ? 0 : most_aliases + 1), "a page is mapped in few places");
    mapped_[address] = {nbytes, handle, false};
    return CUPLUG_OK;
  }
  int set_access(uint64_t address, uint64_t nbytes) {
    if (fails()) return CUPLUG_FAILED;
    uint64_t at = address;
    while (at < address + nbytes) {
      check(mapped_.count(at) == 1, "only what is mapped is made accessible");
      mapped_[at].accessible = true;
      at += mapped_[at].nbytes;
    }
    check(at == address + nbytes, "whole mappings are made accessible");
    return CUPLUG_OK;
  }
  int unmap(uint64_t address, uint64_t nbytes) {
    if (fails()) return CUPLUG_FAILED;
    check(mapped_.count(address) == 1 && mapped_[address].nbytes == nbytes, "a mapping is removed as a whole");
    mapped_.erase(address);
    return CUPLUG_OK;
  }

  uint64_t memory_, used_ = 0, next_ = uint64_t(1) << 40;
  double failures_;
  bool has_failed_ = false;
  std::mt19937_64 random_;
  std::map<uint64_t, uint64_t> segments_, ranges_, pages_;
  std::map<uint64_t, Mapping> mapped_;
  std::map<uint64_t, bool> fences_; /* whether each was refused */
  uint64_t last_fence_ = 0, passed_ = 0, last_page_ = 0;
};

/* A trace's log over memory that stands for a file. */
class Log {
 public:
  ~Log() { ::close(file_); }
  void write_events_of(cuplug_allocator *allocator) {
    const cuplug::EventTarget target = cuplug::TraceLog::target(log_, 0);
    cuplug::record(allocator, &target);
  }
  void name_thread(uint64_t number) {
    log_->name_thread(uint64_t(pthread_self()), ("thread " + std::to_string(number)).c_str());
  }
  /* Close it. How many records there are of each kind. */
  std::vector<int64_t> close() {
    std::vector<int64_t> counts(256);
    const uint64_t end = log_->close();
    check(log_->error() == 0, "nothing cuts the log off");
    for (uint64_t at = 0; at < end; at += cuplug::TraceLog::RECORD) {
      uint8_t kind;
      check(pread(file_, &kind, 1, off_t(at + cuplug::TraceLog::RECORD - 1)) == 1, "the records are in the file");
      ++counts[kind];
    }
    return counts;
  }

 private:
  const int file_ = memfd_create("log", 0);
  const std::shared_ptr<cuplug::TraceLog> log_ = cuplug::TraceLog::make(file_, 0);
};

struct Live {
  cuplug_block *block;
  uint64_t address, nbytes, requested, stream;
};

/* One random program, of one thread or of several. */
class Program {
 public:
  Program(const std::string &strategy, uint64_t seed)
      : strategy_(strategy),
        random_(seed),
        device_(seed, pick({24, 96, 4096}) * MIB, pick({0, 0, 3, 30}) / 300.0),
        largest_(pick({4 << 10, 3 << 20, 30 << 20})) {
    std::vector<std::pair<std::string, std::string>> chosen;
    if (pick({0, 1}) == 1) chosen.push_back({"memory_limit", std::to_string(pick({16, 64}) * MIB)});
    if (strategy != "caching") {
      chosen.push_back({"slack", std::to_string(pick({0, 8, 48}) * MIB)});
      device_.most_aliases = pick({0, 1, 4});
      chosen.push_back({"aliases", std::to_string(device_.most_aliases)});
    }
    if (strategy == "planned") {
      chosen.push_back({"learn", "3"});
    } else if (strategy == "expandable") {
      if (pick({0, 0, 1}) == 1) chosen.push_back({"preset", "torch"});
      if (pick({0, 0, 1}) == 1) chosen.push_back({"roundup_power2_divisions", "4"});
    } else {
      if (pick({0, 1}) == 1) chosen.push_back({"preset", "torch"});
      if (pick({0, 0, 1}) == 1) chosen.push_back({"max_split_size", std::to_string(24 * MIB)});
      if (pick({0, 0, 1}) == 1) chosen.push_back({"garbage_collection_threshold", "0.3"});
      if (pick({0, 0, 1}) == 1) chosen.push_back({"roundup_power2_divisions", "4"});
    }
    std::vector<cuplug_option> options;
    for (const auto &option : chosen) options.push_back({option.first.c_str(), option.second.c_str()});
    cuplug_upstream table = device_.table();
    check(cuplug_allocator_create(strategy.c_str(), options.data(), options.size(), &table, &allocator_) == CUPLUG_OK,
          "an allocator is made");
    cuplug_observe(allocator_, pick({0, 1}) == 1);
    log_.write_events_of(allocator_);
    cuplug_allocator_set_out_of_memory_hook(allocator_, hook, this);
  }

  void run_alone(int operations) {
    const std::mt19937_64 begin = random_;
    for (int at = 0; at < operations; ++at) {
      if (repeats(at)) {
        random_ = begin;
        free_all(&live_);
        cuplug_finish_planning(allocator_);
      }
      operate();
      check_model();
    }
  }

  void run_with(int threads, int operations) {
    std::vector<std::thread> running;
    for (int at = 0; at < threads; ++at)
      running.emplace_back([this, at, operations] { run_in_thread(uint64_t(at), operations); });
    for (std::thread &thread : running) thread.join();
    check_model();
  }

  void finish() {
    device_.stop_failing();
    bool closed = cuplug_allocator_close(allocator_) == CUPLUG_OK; /* not after a fence that was refused */
    check(closed || device_.has_failed(), "closing succeeds");
    if (closed) {
      for (const Live &live : live_) check(!cuplug_block_is_live(live.block), "no block is live in a closed allocator");
      cuplug_statistics counted = statistics();
      check(counted.all.active.current == 0 && counted.all.allocation.current == 0, "nothing is in use at the end");
      if (!device_.has_failed()) {
        check(device_.used() == 0 && counted.all.reserved_bytes.current == 0, "everything was given back");
        check(device_.ranges() == 0, "every range was given back");
      }
      cuplug_block *block;
      check(cuplug_allocate(allocator_, 1, 0, 0, &block) == CUPLUG_CLOSED, "a closed allocator gives out nothing");
    }
    const int64_t allocated = statistics().all.allocation.allocated;
    cuplug_served served{};
    if (strategy_ == "planned") check(cuplug_get_served(allocator_, &served) == CUPLUG_OK, "what a plan served is counted");
    planned_requests += served.planned_requests;
    cuplug_allocator_destroy(allocator_);
    const std::vector<int64_t> records = log_.close();
    check(records[cuplug::ALLOCATE] == allocated, "each allocation is in the log");
    check(!closed || records[cuplug::FREED] == allocated, "each free is in the log");
    check(device_.fences() == 0, "every fence was dropped");
  }

 private:
  uint64_t pick(std::initializer_list<int> choices) {
    return uint64_t(*(choices.begin() + random_() % choices.size()));
  }

  uint64_t size(std::mt19937_64 &random) const {
    uint64_t most = largest_ >> random() % 12;
    return 1 + random() % std::max<uint64_t>(most, 1);
  }

  cuplug_statistics statistics() {
    cuplug_statistics counted;
    check(cuplug_get_statistics(allocator_, &counted) == CUPLUG_OK, "statistics are always there");
    return counted;
  }

  static int hook(void *self, uint64_t, uint64_t) {
    Program &program = *static_cast<Program *>(self);
    std::lock_guard<std::mutex> guard(program.mutex_);
    if (program.live_.empty()) return 0;
    cuplug_free(program.allocator_, program.live_.back().block, 0);
    program.live_.pop_back();
    return 1;
  }

  void operate() {
    uint64_t draw = random_() % 100, stream = random_() % 3;
    if (draw < 50) {
      allocate(random_, stream, &live_);
    } else if (draw < 80 && !live_.empty()) {
      std::swap(live_[random_() % live_.size()], live_.back());
      Live live = live_.back();
      live_.pop_back();
      check(free(live, random_() % 2 == 0) == CUPLUG_OK, "a live block can be freed");
    } else if (draw < 90 && !live_.empty()) {
      cuplug_record_stream(allocator_, live_[random_() % live_.size()].block, stream, 0);
    } else if (draw < 92) {
      cuplug_forget_stream(allocator_, stream);
      uint64_t released;
      if (random_() % 2 == 0) cuplug_release_forgotten(allocator_, stream, &released);
    } else if (draw < 93) {
      uint64_t released;
      cuplug_release_cached(allocator_, &released);
    } else if (draw < 95) {
      cuplug_allocator_set_memory_limit(allocator_, random_() % 3 == 0 ? UINT64_MAX : (8 + random_() % 100) * MIB);
    } else if (draw < 96) {
      free_all(&live_);
    } else if (draw < 97) {
      cuplug_reset_peaks(allocator_);
    } else {
      cuplug_event events[64];
      while (cuplug_take_events(allocator_, events, 64) == 64) {
      }
    }
  }

  /* Whether a program begins anew what it has done before: only what repeats can be learnt. */
  bool repeats(int operation) const { return strategy_ == "planned" && operation % CYCLE == 0; }

  void free_all(std::vector<Live> *live) {
    for (; !live->empty(); live->pop_back()) cuplug_free(allocator_, live->back().block, 0);
  }

  void allocate(std::mt19937_64 &random, uint64_t stream, std::vector<Live> *live) {
    uint64_t nbytes = size(random);
    cuplug_block *block = nullptr;
    int answer = cuplug_allocate(allocator_, nbytes, stream, 0, &block);
    check(answer == CUPLUG_OK || answer == CUPLUG_OUT_OF_MEMORY || answer == CUPLUG_FAILED,
          "an allocation says why it fails");
    if (answer != CUPLUG_OK) return;
    check(cuplug_block_nbytes(block) >= nbytes && cuplug_block_address(block) % 512 == 0,
          "a block is large enough, and aligned");
    std::lock_guard<std::mutex> guard(mutex_);
    live->push_back({block, cuplug_block_address(block), cuplug_block_nbytes(block), nbytes, stream});
  }

  int free(const Live &live, bool by_address) {
    return by_address ? cuplug_free_address(allocator_, live.address) : cuplug_free(allocator_, live.block, 0);
  }

  /* Blocks go from hand to hand: each thread frees what any has allocated. What repeats keeps them to itself. */
  void run_in_thread(uint64_t number, int operations) {
    std::mt19937_64 random(number);
    std::vector<Live> own, *live = strategy_ == "planned" ? &own : &live_;
    log_.name_thread(number);
    for (int at = 0; at < operations; ++at) {
      if (repeats(at)) {
        random.seed(number);
        free_all(&own);
        cuplug_finish_planning(allocator_);
      }
      const uint64_t draw = random() % 100, which = random(), stream = random() % 3;
      if (draw < 50) {
        allocate(random, live == &own ? number : stream, live);
      } else if (draw < 94) {
        std::unique_lock<std::mutex> guard(mutex_);
        if (live->empty()) continue;
        std::swap((*live)[which % live->size()], live->back());
        Live taken = live->back();
        live->pop_back();
        guard.unlock();
        if (draw < 60) cuplug_record_stream(allocator_, taken.block, stream, 0);
        check(free(taken, draw % 2 == 0) == CUPLUG_OK, "a live block can be freed by any thread");
      } else if (draw < 95) {
        uint64_t released;
        cuplug_release_cached(allocator_, &released);
      } else if (draw < 96) {
        if (strategy_ != "planned" || at % (10 * CYCLE) < CYCLE) cuplug_forget_stream(allocator_, stream);
      } else if (draw < 97) {
        cuplug_map *map = nullptr;
        if (cuplug_get_segments(allocator_, &map) == CUPLUG_OK) cuplug_map_free(map);
      } else if (draw < 98) {
        statistics();
      } else {
        cuplug_event events[64];
        cuplug_take_events(allocator_, events, 64);
      }
    }
    free_all(&own);
  }

  /* What must hold between any two operations. */
  void check_model() {
    cuplug_map *map = nullptr;
    int answer = cuplug_get_segments(allocator_, &map);
    cuplug_statistics counted = statistics();
    uint64_t nbytes = 0, requested = 0;
    for (const Live &live : live_) {
      nbytes += live.nbytes;
      requested += live.requested;
    }
    check(counted.all.allocation.current == int64_t(live_.size()), "the live blocks are counted");
    check(counted.all.allocated_bytes.current == int64_t(nbytes), "the bytes of live blocks are counted");
    check(counted.all.requested_bytes.current == int64_t(requested), "the bytes asked for are counted");
    if (!device_.has_failed())
      check(counted.all.reserved_bytes.current == int64_t(device_.used()), "what upstream gave out is what is held");
    check(counted.all.reserved_bytes.current >= counted.all.active_bytes.current, "blocks lie in memory that is held");
    check_sums(counted);
    if (answer == CUPLUG_OK) {
      check_map(*map, counted);
      cuplug_map_free(map);
    }
  }

  static void check_sums(const cuplug_statistics &counted) {
    cuplug_counter all[9], small[9], large[9];
    std::memcpy(all, &counted.all, sizeof all);
    std::memcpy(small, &counted.small, sizeof small);
    std::memcpy(large, &counted.large, sizeof large);
    for (int at = 0; at < 9; ++at) {
      check(all[at].current == small[at].current + large[at].current, "the parts make up the whole");
      check(all[at].peak >= all[at].current && all[at].current >= 0, "a peak is not below the current value");
      check(all[at].allocated - all[at].freed <= all[at].current, "sums agree with the current value");
    }
  }

  void check_map(const cuplug_map &map, const cuplug_statistics &counted) {
    std::map<uint64_t, Live> expected;
    for (const Live &live : live_) expected[live.address] = live;
    check(expected.size() == live_.size(), "no two live blocks have one address");
    uint64_t held = 0, active = 0, behind = 0;
    std::vector<Device::Part> memory;
    for (size_t at = 0; at < map.segment_count; ++at) {
      const cuplug_segment &segment = map.segments[at];
      check(segment.address >= behind, "segments do not overlap");
      uint64_t place = segment.address;
      for (size_t piece = segment.first_piece; piece < segment.first_piece + segment.piece_count; ++piece) {
        const cuplug_piece &found = map.pieces[piece];
        check(found.address == place, "pieces fill a segment without a gap");
        place += found.nbytes;
        if (found.state == CUPLUG_ACTIVE) {
          auto live = expected.find(found.address);
          check(live != expected.end() && live->second.nbytes == found.nbytes, "what the map calls live is live");
          expected.erase(live);
        }
        if (found.state == CUPLUG_INACTIVE) continue;
        active += found.nbytes;
        device_.add_memory(found.address, found.nbytes, &memory);
        if (!device_.has_failed())
          check(device_.is_accessible(found.address, found.nbytes), "a block is accessible memory");
      }
      check(place == segment.address + segment.nbytes, "pieces fill a segment");
      behind = place;
      held += segment.nbytes;
    }
    check(expected.empty(), "every live block is in the map");
    std::sort(memory.begin(), memory.end());
    for (size_t at = 1; at < memory.size(); ++at)
      check(memory[at - 1].handle != memory[at].handle || memory[at - 1].end <= memory[at].start,
            "no two blocks share memory");
    check(held == uint64_t(counted.all.reserved_bytes.current), "the map shows what is held");
    check(active == uint64_t(counted.all.active_bytes.current), "the map shows what is active");
    check(map.segment_count == size_t(counted.all.segment.current), "the segments are counted");
  }

  static constexpr int CYCLE = 40; /* operations */

  std::string strategy_;
  std::mt19937_64 random_;
  Device device_;
  uint64_t largest_;
  Log log_;
  cuplug_allocator *allocator_ = nullptr;
  std::mutex mutex_;
  std::vector<Live> live_;
};

}  // namespace

int main(int count, char **arguments) {
  if (count < 5) {
    std::fprintf(stderr, "fuzz STRATEGY SEEDS THREADS OPERATIONS [FIRST_SEED]\n");
    return 2;
  }
  int seeds = std::atoi(arguments[2]), threads = std::atoi(arguments[3]), operations = std::atoi(arguments[4]);
  int first = count > 5 ? std::atoi(arguments[5]) : 0;
  for (int seed = first; seed < first + seeds; ++seed) {
    seed_under_way = seed;
    Program program(arguments[1], uint64_t(seed));
    if (threads > 1)
      program.run_with(threads, operations);
    else
      program.run_alone(operations);
    program.finish();
  }
  check(std::string(arguments[1]) != "planned" || planned_requests > 0, "something is learnt");
  std::printf("%d programs went well\n", seeds);
  return 0;
}

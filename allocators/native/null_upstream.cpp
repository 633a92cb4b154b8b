/* An upstream without a device (null.py): the same addresses, checks, counts and estimates. */
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "cuplug_allocator.h"

#define EXPORT __attribute__((visibility("default")))

namespace {

constexpr uint64_t MIB = 1 << 20, HOST_BYTES = uint64_t(1) << 50;

/* Measured costs of a call: bytes and microseconds. The figures, and where they come from, are those of costs.py. */
struct Cost {
  uint64_t nbytes;
  double us;
};
constexpr Cost RESERVE[] = {{2 * MIB, 33.0}, {20 * MIB, 39.0}, {256 * MIB, 55.0}, {1024 * MIB, 75.0}};
constexpr Cost RELEASE[] = {{2 * MIB, 30.0}, {20 * MIB, 37.0}, {256 * MIB, 100.0}, {1024 * MIB, 322.0}};
constexpr Cost RESERVE_RANGE[] = {{0, 24.0}};
constexpr Cost FREE_RANGE[] = {{0, 0.0}};
constexpr Cost CREATE_PAGE[] = {{2 * MIB, 8.0}, {256 * MIB, 10.0}};
constexpr Cost CREATE_HOST_PAGE[] = {{2 * MIB, 600.0}, {2048 * MIB, 630000.0}};
constexpr Cost MAP[] = {{0, 1.3}};
constexpr Cost SET_ACCESS[] = {{2 * MIB, 22.0}, {256 * MIB, 37.0}};
constexpr Cost UNMAP[] = {{2 * MIB, 15.0}, {256 * MIB, 17.0}};
constexpr Cost RELEASE_PAGE[] = {{2 * MIB, 10.0}, {20 * MIB, 14.0}, {256 * MIB, 82.0}};

template <size_t COUNT>
double cost_us(const Cost (&points)[COUNT], uint64_t nbytes) {
  if (COUNT == 1 || nbytes <= points[0].nbytes) return points[0].us;
  size_t above = 1;
  while (above < COUNT - 1 && points[above].nbytes <= nbytes) ++above;
  const Cost low = points[above - 1], high = points[above];
  return low.us + (high.us - low.us) * double(nbytes - low.nbytes) / double(high.nbytes - low.nbytes);
}

/* Addresses as the CUDA driver gives them: see null.py. Gaps are kept by their sizes' powers of two, too, so that the
 * lowest that fits is found without a look at all of them. */
class Addresses {
 public:
  static constexpr uint64_t NONE = UINT64_MAX, TOP = 0x7F0000000000;

  /* The address of `nbytes` bytes; NONE if so many are not left. */
  uint64_t take(uint64_t nbytes) {
    if (nbytes < SMALL) {
      next_small_ += nbytes;
      return next_small_ - nbytes;
    }
    uint64_t address = lowest_gap(nbytes), left;
    if (address != NONE) {
      left = gaps_[address] - nbytes;
      remove(address);
    } else {
      left = (CHUNK - nbytes % CHUNK) % CHUNK;
      if (nbytes > bottom_ || left > bottom_ - nbytes) return NONE;
      address = bottom_ -= nbytes + left;
    }
    if (left != 0) add(address + nbytes, left);
    return address;
  }
  void give(uint64_t address, uint64_t nbytes) {
    if (nbytes < SMALL) return;
    auto after = gaps_.lower_bound(address);
    if (after != gaps_.end() && after->first == address + nbytes) {
      nbytes += after->second;
      after = remove(after->first);
    }
    if (after != gaps_.begin()) {
      auto before = std::prev(after);
      if (before->first + before->second == address) {
        address = before->first;
        nbytes += before->second;
        remove(address);
      }
    }
    add(address, nbytes);
  }

 private:
  using Gaps = std::map<uint64_t, uint64_t>;
  static constexpr uint64_t CHUNK = 32 * MIB, SMALL = 2 * MIB;

  static int power(uint64_t nbytes) { return 63 - __builtin_clzll(nbytes); }

  uint64_t lowest_gap(uint64_t nbytes) const {
    uint64_t lowest = NONE;
    for (int above = power(nbytes) + 1; above < 64; ++above) /* all of these fit */
      if (!by_power_[above].empty()) lowest = std::min(lowest, *by_power_[above].begin());
    for (uint64_t address : by_power_[power(nbytes)]) {
      if (address >= lowest) break;
      if (gaps_.at(address) >= nbytes) return address;
    }
    return lowest;
  }
  void add(uint64_t address, uint64_t nbytes) {
    gaps_[address] = nbytes;
    by_power_[power(nbytes)].insert(address);
  }
  Gaps::iterator remove(uint64_t address) {
    auto gap = gaps_.find(address);
    by_power_[power(gap->second)].erase(address);
    return gaps_.erase(gap);
  }

  uint64_t bottom_ = TOP, next_small_ = TOP;
  Gaps gaps_; /* by address: bytes */
  std::set<uint64_t> by_power_[64];
};

struct Null {
  uint64_t total, granularity, page_granularity = 2 * MIB, used = 0, used_on_host = 0;
  cuplug_null_counts counts{};
  Addresses addresses;
  std::unordered_map<uint64_t, uint64_t> sizes;
  std::map<uint64_t, uint64_t> ranges;
  struct Page {
    uint64_t nbytes, mappings;
    bool released, host;
  };
  std::unordered_map<uint64_t, Page> pages;
  struct Mapping {
    uint64_t nbytes, handle;
  };
  std::map<uint64_t, Mapping> mapped;
  uint64_t next_page = 1, held_pages = 0; /* handles that have not been released */

  template <size_t COUNT>
  void charge(uint64_t &calls, const Cost (&cost)[COUNT], uint64_t nbytes) {
    ++calls;
    counts.driver_time_us += cost_us(cost, nbytes);
  }
  bool take(uint64_t nbytes) {
    if (nbytes > total - used) return false;
    used += nbytes;
    return true;
  }
  /* The handle of a new page. */
  uint64_t enter(uint64_t nbytes, bool host) {
    pages[next_page] = {nbytes, 0, false, host};
    ++held_pages;
    return next_page++;
  }
  bool whole(uint64_t nbytes) const { return nbytes != 0 && nbytes % page_granularity == 0; }
  /* The page with this handle, if the handle is still held. */
  Page *page(uint64_t handle) {
    auto found = pages.find(handle);
    return found == pages.end() || found->second.released ? nullptr : &found->second;
  }
  bool in_range(uint64_t address, uint64_t nbytes) const {
    auto after = ranges.upper_bound(address);
    if (after == ranges.begin()) return false;
    auto range = std::prev(after);
    return address - range->first < range->second && nbytes <= range->second - (address - range->first);
  }
  /* Whether mapped pages fill the range from end to end. */
  bool filled(uint64_t address, uint64_t nbytes) const {
    uint64_t at = address, end = address + nbytes;
    while (at < end) {
      auto found = mapped.find(at);
      if (found == mapped.end()) return false;
      at += found->second.nbytes;
    }
    return at == end && nbytes != 0;
  }
  void drop_unused(uint64_t handle) {
    auto found = pages.find(handle);
    if (!found->second.released || found->second.mappings != 0) return;
    (found->second.host ? used_on_host : used) -= found->second.nbytes;
    pages.erase(found);
  }
};

Null &null_of(void *context) { return *static_cast<Null *>(context); }

int reserve(void *context, uint64_t nbytes, uint64_t *address) {
  Null &device = null_of(context);
  if (nbytes == 0) return CUPLUG_FAILED;
  if (nbytes > Addresses::TOP) return CUPLUG_OUT_OF_MEMORY;
  nbytes = (nbytes + device.granularity - 1) / device.granularity * device.granularity;
  device.charge(device.counts.mem_alloc, RESERVE, nbytes);
  if (!device.take(nbytes)) return CUPLUG_OUT_OF_MEMORY;
  *address = device.addresses.take(nbytes);
  if (*address == Addresses::NONE) {
    device.used -= nbytes;
    return CUPLUG_OUT_OF_MEMORY;
  }
  device.sizes[*address] = nbytes;
  return CUPLUG_OK;
}

int release(void *context, uint64_t address) {
  Null &device = null_of(context);
  auto found = device.sizes.find(address);
  if (found == device.sizes.end()) return CUPLUG_FAILED;
  uint64_t nbytes = found->second;
  device.sizes.erase(found);
  device.charge(device.counts.mem_free, RELEASE, nbytes);
  device.addresses.give(address, nbytes);
  device.used -= nbytes;
  return CUPLUG_OK;
}

int memory_info(void *context, uint64_t *free_bytes, uint64_t *total_bytes) {
  *free_bytes = null_of(context).total - null_of(context).used;
  *total_bytes = null_of(context).total;
  return CUPLUG_OK;
}

/* No work is ever queued: every fence has passed. */
int fence(void *context, uint64_t, void **made) {
  ++null_of(context).counts.fences;
  *made = context;
  return CUPLUG_OK;
}
int fence_done(void *, void *, int *done) {
  *done = 1;
  return CUPLUG_OK;
}
int fence_wait(void *, void *) { return CUPLUG_OK; }
void fence_drop(void *, void *) {}

int reserve_range(void *context, uint64_t nbytes, uint64_t *address) {
  Null &device = null_of(context);
  if (!device.whole(nbytes)) return CUPLUG_FAILED;
  device.charge(device.counts.mem_address_reserve, RESERVE_RANGE, nbytes);
  *address = device.addresses.take(nbytes);
  if (*address == Addresses::NONE) return CUPLUG_OUT_OF_MEMORY;
  device.ranges[*address] = nbytes;
  return CUPLUG_OK;
}

int free_range(void *context, uint64_t address, uint64_t nbytes) {
  Null &device = null_of(context);
  auto found = device.ranges.find(address);
  if (found == device.ranges.end() || found->second != nbytes) return CUPLUG_FAILED;
  auto inside = device.mapped.lower_bound(address);
  if (inside != device.mapped.end() && inside->first < address + nbytes) return CUPLUG_FAILED;
  device.charge(device.counts.mem_address_free, FREE_RANGE, nbytes);
  device.addresses.give(address, nbytes);
  device.ranges.erase(found);
  return CUPLUG_OK;
}

int create_page(void *context, uint64_t nbytes, uint64_t *handle) {
  Null &device = null_of(context);
  if (!device.whole(nbytes)) return CUPLUG_FAILED;
  device.charge(device.counts.mem_create, CREATE_PAGE, nbytes);
  if (!device.take(nbytes)) return CUPLUG_OUT_OF_MEMORY;
  *handle = device.enter(nbytes, false);
  return CUPLUG_OK;
}

int create_host_page(void *context, uint64_t nbytes, uint64_t *handle) {
  Null &device = null_of(context);
  if (!device.whole(nbytes)) return CUPLUG_FAILED;
  device.charge(device.counts.mem_create_host, CREATE_HOST_PAGE, nbytes);
  if (nbytes > HOST_BYTES - device.used_on_host) return CUPLUG_OUT_OF_MEMORY;
  device.used_on_host += nbytes;
  *handle = device.enter(nbytes, true);
  return CUPLUG_OK;
}

int release_page(void *context, uint64_t handle) {
  Null &device = null_of(context);
  Null::Page *page = device.page(handle);
  if (page == nullptr) return CUPLUG_FAILED;
  device.charge(device.counts.mem_release, RELEASE_PAGE, page->nbytes);
  page->released = true;
  --device.held_pages;
  device.drop_unused(handle);
  return CUPLUG_OK;
}

int map(void *context, uint64_t address, uint64_t nbytes, uint64_t handle) {
  Null &device = null_of(context);
  Null::Page *page = device.page(handle);
  if (page == nullptr || page->nbytes != nbytes || !device.in_range(address, nbytes) ||
      device.mapped.count(address) != 0)
    return CUPLUG_FAILED;
  device.charge(device.counts.mem_map, MAP, nbytes);
  device.mapped[address] = {nbytes, handle};
  ++page->mappings;
  return CUPLUG_OK;
}

int set_access(void *context, uint64_t address, uint64_t nbytes) {
  Null &device = null_of(context);
  if (!device.filled(address, nbytes)) return CUPLUG_FAILED;
  for (uint64_t at = address; at < address + nbytes; at += device.mapped[at].nbytes)
    device.counts.driver_time_us += cost_us(SET_ACCESS, device.mapped[at].nbytes);
  ++device.counts.mem_set_access;
  return CUPLUG_OK;
}

int unmap(void *context, uint64_t address, uint64_t nbytes) {
  Null &device = null_of(context);
  if (!device.filled(address, nbytes)) return CUPLUG_FAILED;
  ++device.counts.mem_unmap;
  for (uint64_t at = address; at < address + nbytes;) {
    Null::Mapping mapping = device.mapped[at];
    device.mapped.erase(at);
    at += mapping.nbytes;
    device.counts.driver_time_us += cost_us(UNMAP, mapping.nbytes);
    --device.pages[mapping.handle].mappings;
    device.drop_unused(mapping.handle);
  }
  return CUPLUG_OK;
}

void close(void *context) { delete &null_of(context); }

/* The answer of `call`; host memory that runs out is a failure of the call. */
template <auto call, class... Arguments>
int guarded(void *context, Arguments... arguments) {
  try {
    return call(context, arguments...);
  } catch (const std::bad_alloc &) {
    return CUPLUG_FAILED;
  }
}

}  // namespace

extern "C" {

EXPORT int cuplug_null_upstream(uint64_t total_bytes, uint64_t granularity, cuplug_upstream *made) {
  return cuplug_null_upstream_with_pages(total_bytes, granularity, 2 * MIB, made);
}

EXPORT int cuplug_null_upstream_with_pages(uint64_t total_bytes, uint64_t granularity, uint64_t page_granularity,
                                           cuplug_upstream *made) {
  if (granularity == 0 || made == nullptr) return CUPLUG_INVALID;
  Null *device = new (std::nothrow) Null;
  if (device == nullptr) return CUPLUG_NO_HOST_MEMORY;
  device->total = total_bytes;
  device->granularity = granularity;
  device->page_granularity = page_granularity;
  *made = cuplug_upstream{device,
                          guarded<reserve>,
                          release,
                          memory_info,
                          fence,
                          fence_done,
                          fence_wait,
                          fence_drop,
                          granularity,
                          page_granularity,
                          guarded<reserve_range>,
                          free_range,
                          guarded<create_page>,
                          release_page,
                          guarded<map>,
                          set_access,
                          unmap,
                          close,
                          nullptr,
                          guarded<create_host_page>,
                          nullptr};
  return CUPLUG_OK;
}

EXPORT int cuplug_null_upstream_counts(const cuplug_upstream *upstream, cuplug_null_counts *counts) {
  if (upstream == nullptr || counts == nullptr || upstream->close != close) return CUPLUG_INVALID;
  const Null &device = null_of(upstream->context);
  *counts = device.counts;
  counts->used_bytes = device.used;
  counts->total_bytes = device.total;
  counts->pages = device.held_pages;
  counts->used_host_bytes = device.used_on_host;
  return CUPLUG_OK;
}

}  // extern "C"

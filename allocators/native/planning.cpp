#include "planning.h"

#include <algorithm>
#include <numeric>

#include "packing.h"
#include "policy.h"

namespace cuplug {

namespace {

using namespace policy;

constexpr int64_t FOREVER = int64_t(1) << 62;

/* For each place, how many values from there on equal those at the start (the Z function). */
std::vector<size_t> equal_starts(const std::vector<uint64_t> &values) {
  const size_t count = values.size();
  std::vector<size_t> same(count);
  size_t left = 0, right = 0;
  for (size_t place = 1; place < count; ++place) {
    size_t length = place < right ? std::min(right - place, same[place - left]) : 0;
    while (place + length < count && values[length] == values[place + length]) ++length;
    same[place] = length;
    if (place + length > right) {
      left = place;
      right = place + length;
    }
  }
  return same;
}

/* What repeats at the end of requests that agree, from the last one backwards, in so many places with those before them:
 * where that begins, and the length of one cycle. */
bool best_cycle(const std::vector<size_t> &same, size_t repetitions, size_t *first, size_t *cycle) {
  size_t explained = 0;
  for (size_t length = 1; length < same.size(); ++length) {
    if (same[length] < (repetitions - 1) * length || same[length] + length <= explained) continue;
    explained = same[length] + length;
    *cycle = length;
  }
  *first = same.size() - explained;
  return explained != 0 && explained * LEAST_SHARE >= same.size();
}

/* The length of what a cycle seems to be a part of; 0 for none. */
size_t larger_cycle(const std::vector<size_t> &same, size_t first, size_t length) {
  for (size_t lag = length + 1; lag < same.size(); ++lag)
    if (same[lag] >= same.size() - first) return lag;
  return 0;
}

/* Whether two cycles are the same, wherever each begins. */
bool repeat_alike(const std::vector<uint64_t> &sizes, const std::vector<uint64_t> &others) {
  if (sizes.size() != others.size()) return false;
  std::vector<uint64_t> all = sizes;
  for (int twice = 0; twice < 2; ++twice) all.insert(all.end(), others.begin(), others.end());
  const std::vector<size_t> same = equal_starts(all);
  return std::any_of(same.begin() + ptrdiff_t(sizes.size()), same.end(),
                     [&](size_t length) { return length >= sizes.size(); });
}

/* For how many requests the block at `place` lives, in the longest of its repetitions; more than `length` if it is not
 * freed within one. */
int64_t life(const std::vector<Asked> &requests, size_t place, size_t length) {
  if (requests[place].freed < 0) return FOREVER;
  int64_t longest = 0;
  for (size_t at = place; at < requests.size(); at += length) {
    const int64_t freed = requests[at].freed;
    longest = std::max(longest, freed >= 0 ? std::max(freed - int64_t(at), int64_t(1)) : int64_t(requests.size() - at));
  }
  return longest;
}

/* The place in a cycle before which the least is alive, of what lives no longer than a cycle. */
size_t quietest(const std::vector<int64_t> &lives, const std::vector<uint64_t> &sizes) {
  const size_t length = lives.size();
  std::vector<int64_t> change(length + 1);
  int64_t alive = 0;
  for (size_t place = 0; place < length; ++place) {
    const int64_t size = int64_t(sizes[place]);
    if (uint64_t(lives[place]) > length) continue;
    const size_t end = place + size_t(lives[place]);
    change[place] += size;
    if (end > length) {
      alive += size;
      change[end - length] -= size;
    } else if (end < length) {
      change[end] -= size;
    }
  }
  int64_t least = alive;
  size_t chosen = 0;
  for (size_t place = 1; place < length; ++place) {
    alive += change[place - 1];
    const int64_t before = alive + std::min(change[place], int64_t(0));
    if (before < least) {
      least = before;
      chosen = place;
    }
  }
  return chosen;
}

/* Whether as much is alive at each of the places `first`, `first` + `length` and so on, but for `most` bytes. */
bool is_steady(const std::vector<Asked> &requests, size_t first, size_t length, uint64_t most) {
  const size_t count = requests.size();
  std::vector<int64_t> change(count + 1);
  for (size_t place = 0; place < count; ++place) {
    const int64_t size = int64_t(requests[place].nbytes), freed = requests[place].freed;
    if (freed == int64_t(place)) continue;
    change[std::min(place + 1, count)] += size;
    if (freed >= 0) change[size_t(freed)] -= size;
  }
  int64_t alive = 0, low = INT64_MAX, high = INT64_MIN;
  for (size_t place = 0; place <= count; ++place) {
    alive += change[place];
    if (place < first || (place - first) % length != 0) continue;
    low = std::min(low, alive);
    high = std::max(high, alive);
  }
  return uint64_t(high - low) <= most;
}

/* packing.py: ORDERS. */
bool comes_before(const Buffer &a, const Buffer &b, int order) {
  const int64_t life_a = a.upper - a.lower, life_b = b.upper - b.lower;
  if (order == 0) {
    if (a.size != b.size) return a.size > b.size;
    return life_a != life_b ? life_a > life_b : a.lower < b.lower;
  }
  if (order == 1) {
    __extension__ typedef __int128 Wide;
    const Wide area_a = Wide(a.size) * life_a, area_b = Wide(b.size) * life_b;
    return area_a != area_b ? area_a > area_b : a.lower < b.lower;
  }
  if (life_a != life_b) return life_a > life_b;
  return a.size != b.size ? a.size > b.size : a.lower < b.lower;
}

/* packing.py: pack, without improvements. */
int64_t pack(const std::vector<Buffer> &buffers, const std::vector<int64_t> &fixed, int64_t enough,
             std::vector<int64_t> *offsets) {
  int64_t height = -1;
  for (int order = 0; order < 3; ++order) {
    std::vector<int64_t> numbers(buffers.size());
    std::iota(numbers.begin(), numbers.end(), 0);
    std::stable_sort(numbers.begin(), numbers.end(), [&](int64_t a, int64_t b) {
      return comes_before(buffers[size_t(a)], buffers[size_t(b)], order);
    });
    std::vector<int64_t> tried = fixed;
    const int64_t reached = place_in_order(buffers, numbers, &tried);
    if (height < 0 || reached <= height) {
      height = reached;
      *offsets = tried;
    }
    if (height <= enough) break;
  }
  return height;
}

/* planning.py: _packed, for a cycle without a beginning. What lives on into the next cycle lies lowest, and is two
 * pieces at one offset. */
void lay_out(const std::vector<int64_t> &lives, Cycle *cycle) {
  const int64_t length = int64_t(cycle->sizes.size());
  std::vector<size_t> places(cycle->sizes.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) { return cycle->sizes[a] > cycle->sizes[b]; });
  std::vector<Buffer> buffers;
  std::vector<int64_t> fixed;
  std::vector<size_t> owners;
  int64_t crossing = 0;
  for (size_t place : places) {
    if (lives[place] > length) continue;
    const int64_t size = int64_t(cycle->sizes[place]), end = int64_t(place) + lives[place];
    buffers.push_back({int64_t(place), std::min(end, length), size});
    owners.push_back(place);
    fixed.push_back(end > length ? crossing : -1);
    if (end <= length) continue;
    buffers.push_back({0, end - length, size});
    owners.push_back(place);
    fixed.push_back(crossing);
    crossing += size;
  }
  const int64_t bound = load_peak(buffers);
  std::vector<int64_t> offsets;
  cycle->height = uint64_t(std::max(pack(buffers, fixed, std::max(bound, bound * 1002 / 1000), &offsets), int64_t(0)));
  cycle->offsets.assign(cycle->sizes.size(), UNPLANNED);
  for (size_t at = 0; at < owners.size(); ++at) cycle->offsets[owners[at]] = offsets[at];
}

}  // namespace

void find_cycle_and_larger(std::vector<uint64_t> values, size_t *length, size_t *larger) {
  std::reverse(values.begin(), values.end());
  const std::vector<size_t> same = equal_starts(values);
  size_t first = 0;
  if (!best_cycle(same, 2, &first, length)) *length = 0;
  *larger = *length != 0 ? larger_cycle(same, first, *length) : 0;
}

Learned learned_cycle(uint64_t stream, const std::vector<Asked> &requests, size_t repetitions,
                      const std::vector<uint64_t> &followed) {
  Learned found;
  const size_t count = requests.size();
  std::vector<uint64_t> backwards;
  for (size_t at = count; at-- > 0;) backwards.push_back(requests[at].nbytes);
  const std::vector<size_t> same = equal_starts(backwards);
  size_t first = 0, length = 0;
  if (!best_cycle(same, repetitions, &first, &length)) {
    if (best_cycle(same, 2, &first, &length)) found.look_again = first + repetitions * length;
    return found;
  }
  if (const size_t larger = larger_cycle(same, first, length)) {
    found.look_again = count - same[larger] + (repetitions - 1) * larger;
    return found;
  }
  std::vector<int64_t> lives;
  std::vector<uint64_t> sizes;
  for (size_t place = first; place < first + length; ++place) {
    lives.push_back(life(requests, place, length));
    sizes.push_back(requests[place].nbytes);
  }
  const size_t turn = quietest(lives, sizes);
  std::rotate(lives.begin(), lives.begin() + ptrdiff_t(turn), lives.end());
  std::rotate(sizes.begin(), sizes.begin() + ptrdiff_t(turn), sizes.end());
  if (repeat_alike(sizes, followed)) return found;
  uint64_t asked = 0;
  for (const uint64_t size : sizes) asked += size;
  if (!is_steady(requests, first + turn + length, length, asked / MOST_CHANGE)) return found;
  found.is_found = true;
  found.begins = first + turn;
  found.cycle.stream = stream;
  found.cycle.sizes = std::move(sizes);
  lay_out(lives, &found.cycle);
  return found;
}

}  // namespace cuplug

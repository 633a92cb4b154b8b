/* An exact search for a packing.
 *
 * Time is cut into sections, between which the set of living buffers changes. For each section the search knows its floor,
 * the lowest offset at which a buffer still to be placed there may begin. A buffer's lowest offset is the highest floor in
 * its life; a section's floor is raised to the lowest offset of its buffers. Where floor and remaining sizes exceed the
 * capacity in any section, the branch is dead.
 *
 * Branches: sections of equal floor that stand lower than their neighbours hold, in each section, some buffer whose lowest
 * offset is that very floor. In such a section either one of these lies at the floor, or none does, and then the floor rises.
 * These cases exclude one another and leave nothing out, so the section may be chosen freely: the one with the fewest
 * cases, weighted by how often it was the reason of a failure. Where the rest falls apart in time, the parts are searched
 * each for itself. States that failed are remembered. The search starts anew with another order of the buffers each time
 * that it has taken too long; what it learnt of sections and states stays.
 */
#include "packing.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

namespace cuplug {

namespace {

constexpr int64_t FAR = int64_t{1} << 62;
constexpr int64_t FIRST_NODES = 3000; /* that a start may take; twice as many in each round */
constexpr size_t REMEMBERED = size_t{1} << 20, REMEMBERED_OF_FEW = size_t{1} << 12;
constexpr size_t FEW = 64;
constexpr int64_t NODES_PER_QUESTION = 256;
constexpr size_t BETWEEN_QUESTIONS = 1 << 14; /* buffers that a placed one was compared with */

uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

/* A buffer in sections instead of times. */
struct Item {
  int begin, end;
  int64_t size;
  bool covers(int section) const { return begin <= section && section < end; }
  bool meets(const Item &other) const { return begin < other.end && other.begin < end; }
  bool operator==(const Item &other) const {
    return begin == other.begin && end == other.end && size == other.size;
  }
};

using Items = std::vector<int>; /* numbers of items, in order of their begin */

class Searcher {
 public:
  Searcher(const std::vector<Item> &items, int sections, int64_t capacity, const GoesOn &goes_on)
      : items_(items), capacity_(capacity), goes_on_(goes_on), remaining_(sections), floor_(sections), lifted_(sections),
        least_(items.size()), offset_(items.size()), rank_(items.size()), weight_(sections, 1.0),
        failed_(items.size() > FEW ? REMEMBERED : REMEMBERED_OF_FEW) {}

  Search run(const std::vector<std::vector<int>> &orders) {
    for (int64_t nodes = FIRST_NODES;; nodes *= 2) {
      for (const std::vector<int> &order : orders) {
        for (size_t place = 0; place < order.size(); ++place) rank_[order[place]] = static_cast<int>(place);
        const Search answer = start(nodes);
        if (answer != Search::GAVE_UP || stopped_) return answer;
        for (double &weight : weight_) weight = 1 + (weight - 1) / 2;
      }
    }
  }
  int64_t offset(size_t item) const { return offset_[item]; }

 private:
  Search start(int64_t nodes) {
    left_ = nodes;
    out_ = false;
    std::fill(offset_.begin(), offset_.end(), -1);
    std::fill(floor_.begin(), floor_.end(), 0);
    std::fill(remaining_.begin(), remaining_.end(), 0);
    Items all(items_.size());
    std::iota(all.begin(), all.end(), 0);
    for (const Item &item : items_) {
      for (int at = item.begin; at < item.end; ++at) remaining_[at] += item.size;
    }
    if (place_parts(all)) return Search::FOUND;
    return out_ ? Search::GAVE_UP : Search::NONE;
  }

  /* Place every part of what falls apart in time, the smallest first. */
  bool place_parts(const Items &items) {
    if (items.empty()) return true;
    std::vector<size_t> cuts;
    int end = -1;
    for (size_t i = 0; i < items.size(); ++i) {
      if (items_[items[i]].begin >= end) cuts.push_back(i);
      end = std::max(end, items_[items[i]].end);
    }
    if (cuts.size() == 1) return place(items);
    cuts.push_back(items.size());
    std::vector<std::pair<size_t, size_t>> parts;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) parts.emplace_back(cuts[i + 1] - cuts[i], cuts[i]);
    std::sort(parts.begin(), parts.end());
    for (const auto &[count, first] : parts) {
      const auto begin = items.begin() + static_cast<std::ptrdiff_t>(first);
      if (!place(Items(begin, begin + static_cast<std::ptrdiff_t>(count)))) return false;
    }
    return true;
  }

  /* Place `items`, which hang together. Where that fails, everything is as before. */
  bool place(const Items &items) {
    if (goes_out()) return false;
    const int begin = items_[items[0]].begin;
    int end = begin;
    for (int item : items) end = std::max(end, items_[item].end);
    if (!lift(items, begin, end)) return false;
    uint64_t key = 0;
    for (int at = begin; at < end; ++at) key += mixed(mixed(static_cast<uint64_t>(lifted_[at])) + static_cast<uint64_t>(at));
    for (int item : items) key += mixed(~static_cast<uint64_t>(item));
    uint64_t &memory = failed_[key & (failed_.size() - 1)];
    if (memory == key) return false;

    const std::vector<int64_t> before(floor_.begin() + begin, floor_.begin() + end);
    std::copy(lifted_.begin() + begin, lifted_.begin() + end, floor_.begin() + begin);
    const std::vector<int64_t> here(floor_.begin() + begin, floor_.begin() + end);
    const int section = choose(items, begin, end);
    const int64_t at = floor_[section];
    const int64_t higher = next_floor(items, section);
    Items cases, rest;
    for (int item : items) {
      const auto is_same = [&](int other) { return items_[other] == items_[item]; };
      if (least_[item] == at && items_[item].covers(section) && std::none_of(cases.begin(), cases.end(), is_same)) {
        cases.push_back(item);
      }
    }
    std::sort(cases.begin(), cases.end(), [&](int one, int other) { return rank_[one] < rank_[other]; });
    for (int item : cases) {
      put(item, at);
      rest.clear();
      std::copy_if(items.begin(), items.end(), std::back_inserter(rest), [&](int other) { return other != item; });
      if (place_parts(rest)) return true;
      for (int other : items) take_back(other);
      std::copy(here.begin(), here.end(), floor_.begin() + begin);
      if (out_) break;
    }
    if (!out_ && higher + remaining_[section] <= capacity_) {
      floor_[section] = higher;
      if (place(items)) return true;
    }
    std::copy(before.begin(), before.end(), floor_.begin() + begin);
    if (!out_) memory = key;
    return false;
  }

  bool goes_out() {
    if (--left_ < 0) out_ = true;
    if (++nodes_ % NODES_PER_QUESTION == 0 && !goes_on_()) out_ = stopped_ = true;
    return out_;
  }

  /* Find the lowest offset of each item, and the floors that follow from these. Whether all may still fit. */
  bool lift(const Items &items, int begin, int end) {
    std::fill(lifted_.begin() + begin, lifted_.begin() + end, FAR);
    for (int number : items) {
      const Item &item = items_[number];
      const int64_t least = *std::max_element(floor_.begin() + item.begin, floor_.begin() + item.end);
      least_[number] = least;
      for (int at = item.begin; at < item.end; ++at) lifted_[at] = std::min(lifted_[at], least);
      if (least + item.size > capacity_) {
        for (int at = item.begin; at < item.end; ++at) weight_[at] += 1.0 / (item.end - item.begin);
        return false;
      }
    }
    bool fits = true;
    for (int at = begin; at < end; ++at) {
      if (remaining_[at] > capacity_ - lifted_[at]) {
        weight_[at] += 1;
        fits = false;
      }
    }
    return fits;
  }

  /* The section to decide next, of those that stand lower than their neighbours. */
  int choose(const Items &items, int begin, int end) {
    cases_.assign(static_cast<size_t>(end - begin), 0);
    for (int item : items) {
      for (int at = items_[item].begin; at < items_[item].end; ++at) cases_[at - begin] += floor_[at] == least_[item];
    }
    int chosen = -1;
    double fewest = 0;
    for (int first = begin, last = begin; first < end; first = last) {
      while (last < end && floor_[last] == floor_[first]) ++last;
      if ((first > begin && floor_[first - 1] < floor_[first]) || (last < end && floor_[last] < floor_[first])) continue;
      for (int at = first; at < last; ++at) {
        const int may_rise = remaining_[at] < capacity_ - floor_[at];
        const double found = (cases_[at - begin] + may_rise) / weight_[at];
        if (chosen < 0 || found < fewest) {
          chosen = at;
          fewest = found;
        }
      }
    }
    return chosen;
  }

  /* Where an item over `section` may begin at the earliest if none lies at its floor: `FAR` if nowhere. It then lies on
   * another that begins at the floor beside the section, or in a section with a higher floor. */
  int64_t next_floor(const Items &items, int section) const {
    const int64_t at = floor_[section];
    int64_t next = FAR;
    if (remaining_[section] >= capacity_ - at) return next;
    for (int item : items) {
      if (!items_[item].covers(section)) continue;
      if (least_[item] > at) {
        next = std::min(next, least_[item]);
        continue;
      }
      for (int other : items) {
        if (least_[other] == at && !items_[other].covers(section) && items_[other].meets(items_[item])) {
          next = std::min(next, at + items_[other].size);
        }
      }
    }
    return next;
  }

  void put(int number, int64_t offset) {
    const Item &item = items_[number];
    offset_[number] = offset;
    for (int at = item.begin; at < item.end; ++at) {
      remaining_[at] -= item.size;
      floor_[at] = offset + item.size;
    }
  }

  void take_back(int number) {
    if (offset_[number] < 0) return;
    offset_[number] = -1;
    for (int at = items_[number].begin; at < items_[number].end; ++at) remaining_[at] += items_[number].size;
  }

  const std::vector<Item> &items_;
  const int64_t capacity_;
  const GoesOn &goes_on_;
  std::vector<int64_t> remaining_; /* by section: the sizes of what is not yet placed */
  std::vector<int64_t> floor_, lifted_;
  std::vector<int64_t> least_, offset_; /* by item; an offset of -1: not placed */
  std::vector<int> rank_, cases_;
  std::vector<double> weight_;
  std::vector<uint64_t> failed_;
  int64_t left_ = 0, nodes_ = 0;
  bool out_ = false, stopped_ = false;
};

/* Orders in which to try buffers, by what makes one hard to place: long life, large area, a crowded time. */
std::vector<std::vector<int>> orders_of(const std::vector<Buffer> &buffers, const std::vector<int64_t> &crowd) {
  std::vector<std::vector<int>> orders;
  for (const char *keys : {"WAT", "TAW", "TWA", "ATW", "SWT", "STW"}) {
    const auto value = [&](int number, char key) {
      const double width = static_cast<double>(buffers[number].upper - buffers[number].lower);
      const double size = static_cast<double>(buffers[number].size);
      return key == 'W' ? width : key == 'A' ? width * size : key == 'S' ? size : static_cast<double>(crowd[number]);
    };
    std::vector<int> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int one, int other) {
      for (const char *key = keys; *key != 0; ++key) {
        if (value(one, *key) != value(other, *key)) return value(one, *key) > value(other, *key);
      }
      return false;
    });
    orders.push_back(order);
  }
  return orders;
}

}  // namespace

Search search_packing(const std::vector<Buffer> &given, int64_t capacity, const GoesOn &goes_on,
                      std::vector<int64_t> *offsets) {
  offsets->assign(given.size(), 0);
  std::vector<size_t> numbers; /* of those that need memory at all, in order of their begin */
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].size > 0 && given[i].lower < given[i].upper) numbers.push_back(i);
  }
  std::stable_sort(numbers.begin(), numbers.end(),
                   [&](size_t one, size_t other) { return given[one].lower < given[other].lower; });
  std::vector<Buffer> buffers;
  std::vector<int64_t> times;
  for (size_t number : numbers) {
    buffers.push_back(given[number]);
    times.push_back(given[number].lower);
  }
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto section_of = [&](int64_t time) {
    return static_cast<int>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  };
  std::vector<Item> items;
  std::vector<int64_t> load(times.size()), crowd;
  for (const Buffer &buffer : buffers) {
    items.push_back({section_of(buffer.lower), section_of(buffer.upper), buffer.size});
    for (int at = items.back().begin; at < items.back().end; ++at) load[at] += buffer.size;
  }
  for (int64_t each : load) {
    if (each > capacity) return Search::NONE;
  }
  for (const Item &item : items) crowd.push_back(*std::max_element(load.begin() + item.begin, load.begin() + item.end));
  Searcher searcher(items, static_cast<int>(times.size()), capacity, goes_on);
  const Search answer = searcher.run(orders_of(buffers, crowd));
  for (size_t i = 0; answer == Search::FOUND && i < numbers.size(); ++i) (*offsets)[numbers[i]] = searcher.offset(i);
  return answer;
}

int64_t place_in_order(const std::vector<Buffer> &buffers, const std::vector<int64_t> &order,
                       std::vector<int64_t> *offsets, const GoesOn &goes_on) {
  struct Placed {
    int64_t offset, end;
  };
  /* A tree over the begins: each node holds the placed buffers that live throughout it, and no larger one. Beside it, the
   * begins in order, for those that begin within a life. */
  const size_t count = buffers.size();
  std::vector<size_t> by_begin(count), place(count);
  std::iota(by_begin.begin(), by_begin.end(), size_t{0});
  std::stable_sort(by_begin.begin(), by_begin.end(),
                   [&](size_t one, size_t other) { return buffers[one].lower < buffers[other].lower; });
  std::vector<int64_t> begins(count);
  for (size_t i = 0; i < count; ++i) {
    place[by_begin[i]] = i;
    begins[i] = buffers[by_begin[i]].lower;
  }
  const auto first_from = [&](int64_t time) {
    return static_cast<size_t>(std::lower_bound(begins.begin(), begins.end(), time) - begins.begin());
  };
  size_t leaves = 1;
  while (leaves < count) leaves *= 2;
  std::vector<std::vector<Placed>> living(2 * leaves);
  std::vector<bool> placed(count);
  int64_t highest = 0;
  const auto note = [&](size_t number) {
    const Buffer &buffer = buffers[number];
    const Placed one{(*offsets)[number], (*offsets)[number] + buffer.size};
    highest = std::max(highest, one.end);
    placed[number] = true;
    for (size_t low = first_from(buffer.lower) + leaves, high = first_from(buffer.upper) + leaves; low < high;
         low /= 2, high /= 2) {
      if (low & 1) living[low++].push_back(one);
      if (high & 1) living[--high].push_back(one);
    }
  };
  for (size_t i = 0; i < count; ++i) {
    if ((*offsets)[i] >= 0 && buffers[i].lower < buffers[i].upper) note(i);
  }
  std::vector<Placed> met;
  size_t looked_at = 0;
  for (int64_t next : order) {
    if (goes_on && (looked_at += 1 + met.size()) >= BETWEEN_QUESTIONS) {
      looked_at = 0;
      if (!goes_on()) return -1;
    }
    const size_t number = static_cast<size_t>(next);
    const Buffer &buffer = buffers[number];
    if ((*offsets)[number] >= 0) continue;
    (*offsets)[number] = 0;
    if (buffer.lower >= buffer.upper) continue;
    met.clear();
    const size_t begin = first_from(buffer.lower);
    for (size_t node = begin + leaves; node > 0; node /= 2) met.insert(met.end(), living[node].begin(), living[node].end());
    for (size_t at = begin; at < count && begins[at] < buffer.upper; ++at) {
      const size_t other = by_begin[at];
      if (placed[other] && buffers[other].lower > buffer.lower) {
        met.push_back({(*offsets)[other], (*offsets)[other] + buffers[other].size});
      }
    }
    std::sort(met.begin(), met.end(), [](const Placed &one, const Placed &other) { return one.offset < other.offset; });
    int64_t at = 0;
    for (const Placed &other : met) {
      if (other.offset - at >= buffer.size) break;
      at = std::max(at, other.end);
    }
    (*offsets)[number] = at;
    note(number);
  }
  return highest;
}

int64_t load_peak(const std::vector<Buffer> &buffers) {
  std::vector<std::pair<int64_t, int64_t>> changes;
  changes.reserve(2 * buffers.size());
  for (const Buffer &buffer : buffers) {
    if (buffer.lower >= buffer.upper) continue;
    changes.emplace_back(buffer.lower, buffer.size);
    changes.emplace_back(buffer.upper, -buffer.size);
  }
  std::sort(changes.begin(), changes.end());
  int64_t load = 0, peak = 0;
  for (const auto &[time, change] : changes) peak = std::max(peak, load += change);
  return peak;
}

int64_t place_in_time(const std::vector<Buffer> &buffers, std::vector<int64_t> *offsets) {
  std::vector<size_t> begins, ends;
  for (size_t i = 0; i < buffers.size(); ++i) {
    (*offsets)[i] = 0;
    if (buffers[i].lower < buffers[i].upper && buffers[i].size > 0) begins.push_back(i);
  }
  ends = begins;
  std::stable_sort(begins.begin(), begins.end(), [&](size_t one, size_t other) {
    return std::make_pair(buffers[one].lower, -buffers[one].size) < std::make_pair(buffers[other].lower, -buffers[other].size);
  });
  std::stable_sort(ends.begin(), ends.end(), [&](size_t one, size_t other) { return buffers[one].upper < buffers[other].upper; });
  std::map<int64_t, int64_t> gaps; /* the size of each, by its offset */
  std::set<std::pair<int64_t, int64_t>> by_size;
  int64_t top = 0, highest = 0;
  const auto remove = [&](std::map<int64_t, int64_t>::iterator gap) {
    by_size.erase({gap->second, gap->first});
    return gaps.erase(gap);
  };
  const auto give = [&](int64_t at, int64_t size) {
    auto next = gaps.lower_bound(at);
    if (next != gaps.end() && next->first == at + size) {
      size += next->second;
      next = remove(next);
    }
    if (next != gaps.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == at) {
        at = before->first;
        size += before->second;
        remove(before);
      }
    }
    if (at + size == top) {
      top = at;
    } else {
      gaps.emplace(at, size);
      by_size.emplace(size, at);
    }
  };
  size_t ended = 0;
  for (size_t number : begins) {
    const Buffer &buffer = buffers[number];
    for (; buffers[ends[ended]].upper <= buffer.lower; ++ended) give((*offsets)[ends[ended]], buffers[ends[ended]].size);
    const auto fits = by_size.lower_bound({buffer.size, 0});
    if (fits == by_size.end()) {
      (*offsets)[number] = top;
      top += buffer.size;
      highest = std::max(highest, top);
      continue;
    }
    const auto [size, at] = *fits;
    remove(gaps.find(at));
    (*offsets)[number] = at;
    if (size > buffer.size) {
      gaps.emplace(at + buffer.size, size - buffer.size);
      by_size.emplace(size - buffer.size, at + buffer.size);
    }
  }
  return highest;
}

}  // namespace cuplug

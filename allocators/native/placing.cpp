#include "placing.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace cuplug {

namespace {

/* One gap between two blocks, and where in it a block could begin. */
struct Gap {
  const Block *first = nullptr;
  uint64_t start = 0, end = 0;
  size_t first_alias = 0; /* the first one that begins there or behind it */
  std::vector<Opening::Hole> holes;
  /* Where parts and aliases begin, and where a block would that ends with one: each list ascends by itself, so that
   * what lies below its addresses is summed up along the way. */
  std::vector<uint64_t> starts[4];

  void look_at(const Block *from, uint64_t nbytes, const Returning *returning);
};

/* Note the gap whose first part is `from`: only its bounds where a block of `nbytes` finds no room. */
void Gap::look_at(const Block *from, uint64_t nbytes, const Returning *returning) {
  first = from;
  start = end = from->address;
  for (const Block *span = from; Space::in_gap(span); span = span->after) end = span->end();
  holes.clear();
  for (std::vector<uint64_t> &each : starts) each.clear();
  if (end - start < nbytes) return;
  const auto begins = [&](std::vector<uint64_t> &list, uint64_t address) {
    if (end - address >= nbytes) list.push_back(address);
  };
  const auto ends = [&](std::vector<uint64_t> &list, uint64_t address) {
    if (address - start >= nbytes) list.push_back(address - nbytes);
  };
  for (const Block *span = from; Space::in_gap(span); span = span->after) {
    if (span->kind == HOLE) holes.push_back({span->address, span->end()});
    begins(starts[0], span->address);
    if (span->kind == FREE) ends(starts[1], span->end());
  }
  if (returning == nullptr) return;
  const std::vector<Alias> &aliases = returning->aliases();
  auto alias = std::lower_bound(aliases.begin(), aliases.end(), start,
                                [](const Alias &each, uint64_t address) { return each.address < address; });
  first_alias = size_t(alias - aliases.begin());
  for (; alias != aliases.end() && alias->end() <= end; ++alias) {
    begins(starts[2], alias->address);
    ends(starts[3], alias->end());
  }
}

/* The bytes of holes below an address, asked for addresses that only grow. */
class Below {
 public:
  explicit Below(const std::vector<Opening::Hole> &holes) : at_(holes.begin()), end_(holes.end()) {}

  uint64_t operator()(uint64_t address) {
    for (; at_ != end_ && at_->end <= address; ++at_) passed_ += at_->end - at_->start;
    return at_ != end_ && at_->start < address ? passed_ + (address - at_->start) : passed_;
  }

 private:
  std::vector<Opening::Hole>::const_iterator at_;
  const std::vector<Opening::Hole>::const_iterator end_;
  uint64_t passed_ = 0;
};

}  // namespace

bool best_opening(const Space &space, uint64_t nbytes, const Returning *returning, Opening *best) {
  const uint64_t granularity = space.granularity();
  const Block *best_gap = nullptr;
  std::tuple<int64_t, uint64_t, uint64_t, uint64_t> least; /* what is to be mapped, bytes missing, room, and address */
  Gap gap;
  space.each_gap([&](const Block *first) {
    gap.look_at(first, nbytes, returning);
    for (const std::vector<uint64_t> &starts : gap.starts) {
      if (starts.empty()) continue;
      Below below_start(gap.holes), below_end(gap.holes);
      std::optional<Saving> saving;
      if (returning != nullptr) saving.emplace(*returning, gap.first_alias, granularity);
      for (uint64_t address : starts) {
        const uint64_t end = round_up(address + nbytes, granularity);
        const uint64_t missing = below_end(end) - below_start(address / granularity * granularity);
        const int64_t saved = saving ? (*saving)(address, address + nbytes) : 0;
        const auto rank = std::make_tuple(int64_t(missing) - saved, missing, gap.end - gap.start, address);
        if (best_gap != nullptr && rank >= least) continue;
        best_gap = gap.first;
        least = rank;
      }
    }
  });
  if (best_gap == nullptr) return false;
  std::tie(std::ignore, best->missing, best->room, best->address) = least;
  best->nbytes = nbytes;
  best->holes.clear();
  space.missing(best_gap, best->address, best->address + nbytes, &best->holes);
  return true;
}

}  // namespace cuplug

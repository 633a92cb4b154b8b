#include "host_choice.h"

#include <algorithm>
#include <new>
#include <tuple>


namespace cuplug {

namespace {

using namespace policy;
constexpr int PRECISION = 15; /* binary digits behind the point of what a use of a block on the host is worth */
constexpr uint64_t FACTOR = 0x9E3779B97F4A7C15u; /* odd, so that no size is lost (recurrence.py) */

}  // namespace

uint64_t HostChoice::key_of(uint64_t nbytes) const { return sum_ * FACTOR + nbytes; }

void HostChoice::served(uint64_t address, uint64_t nbytes, uint64_t device, bool host, bool beyond) {
  try {
    note(address, nbytes, device, host, beyond);
  } catch (const std::bad_alloc &) { /* all that was seen is forgotten, as after an interrupt */
    is_on_ = false;
    alive_.clear();
    placed_ = older_ = since_ = longest_ = 0;
    start_ = 0;
    lap_.clear();
    start_lap(false);
  }
}

void HostChoice::note(uint64_t address, uint64_t nbytes, uint64_t device, bool host, bool beyond) {
  if (!is_on_) {
    if (!beyond) return;
    is_on_ = true;
    low_ = high_ = device;
  }
  come_by(device + placed_ + older_);
  const uint64_t demand = device + placed_;
  sum_ = key_of(nbytes);
  if (is_chosen(sum_)) planned_ += nbytes;
  alive_[address] = {start_ + lap_.size(), host ? nbytes : 0};
  lap_.push_back({sum_, nbytes, demand + nbytes, 0});
  ++since_;
  if (host) {
    placed_ += nbytes;
    most_placed_ = std::max(most_placed_, placed_);
  } else {
    most_on_device_ = std::max(most_on_device_, device + nbytes);
  }
  if (beyond) refused_ = refused_ == 0 ? device + nbytes : std::min(refused_, device + nbytes);
}

void HostChoice::freed(uint64_t address) {
  auto found = alive_.find(address);
  if (found == alive_.end()) return;
  const Alive block = found->second;
  alive_.erase(found);
  if (block.number < start_) {
    older_ -= block.on_host;
    return;
  }
  placed_ -= block.on_host;
  Request &request = lap_[block.number - start_];
  request.death = start_ + lap_.size();
  if (is_chosen(request.key)) planned_ -= request.nbytes;
}

/* Look whether this is the valley, with so many bytes in use. */
void HostChoice::come_by(uint64_t demand) {
  if (is_valley(demand)) {
    if (refused_ != 0) {
      high_ = 0;
      for (const Request &request : lap_) high_ = std::max(high_, older_ + request.demand);
      if (is_anchored_) choose();
    } else if (most_placed_ != 0 && room_() >= most_placed_) {
      unchoose_lap();
    }
    longest_ = std::max(longest_, since_);
    low_ = std::min(low_, demand);
    least_ = since_ = 0;
    start_lap(true);
    return;
  }
  least_ = least_ == 0 ? demand : std::min(least_, demand);
  if (since_ % std::max(LAP_PATIENCE, PATIENT_LAPS * longest_) == 0) {
    low_ = least_;
    least_ = 0;
    start_lap(false);
  } else if (lap_.size() == MOST_RECORDED) {
    start_lap(false);
  }
}

void HostChoice::start_lap(bool anchored) {
  start_ += lap_.size();
  lap_.clear();
  is_anchored_ = anchored;
  older_ += placed_;
  sum_ = placed_ = planned_ = refused_ = most_on_device_ = most_placed_ = 0;
}

void HostChoice::unchoose_lap() {
  for (const Request &request : lap_) chosen_.erase(request.key);
}

/* Choose among the requests of the iteration that has just ended. */
void HostChoice::choose() {
  unchoose_lap();
  if (chosen_.size() >= MOST_RECORDED) chosen_.clear();
  const uint64_t fits = std::min(most_on_device_, refused_ - 1);
  std::vector<size_t> moments, first, last;
  for (size_t at = 0; at < lap_.size(); ++at)
    if (lap_[at].demand > fits) moments.push_back(at);
  const size_t count = std::min(moments.size(), SHORTAGE_PARTS);
  std::vector<int64_t> left;
  for (size_t part = 0; part < count; ++part) {
    const size_t start = part * moments.size() / count, end = (part + 1) * moments.size() / count;
    uint64_t most = 0;
    for (size_t at = start; at < end; ++at) most = std::max(most, lap_[moments[at]].demand);
    first.push_back(moments[start]);
    last.push_back(moments[end - 1]);
    left.push_back(int64_t(most - fits));
  }
  std::vector<Candidate> found;
  for (size_t at = 1; at < lap_.size(); ++at) { /* the first comes while it may be the valley still */
    const Request &request = lap_[at];
    if (request.nbytes <= SMALL_BLOCK || request.death == 0) continue;
    const uint64_t life = request.death - start_ - at;
    const size_t begin = size_t(std::lower_bound(first.begin(), first.end(), at) - first.begin());
    const size_t end = size_t(std::lower_bound(last.begin(), last.end(), at + life) - last.begin());
    if (begin >= end) continue;
    const uint64_t most = uint64_t(*std::max_element(left.begin() + ptrdiff_t(begin), left.begin() + ptrdiff_t(end)));
    const uint64_t worth = (uint64_t(end - begin) << PRECISION) / std::min(life, uint64_t(COUNTED_LIFE));
    found.push_back({worth, std::min(request.nbytes, most), request.nbytes, life, at, begin, end});
  }
  std::sort(found.begin(), found.end(), [](const Candidate &a, const Candidate &b) {
    return std::make_tuple(b.worth, b.helps, a.nbytes, b.life, a.at) <
           std::make_tuple(a.worth, a.helps, b.nbytes, a.life, b.at);
  });
  std::vector<Candidate> taken;
  for (const Candidate &one : found) {
    if (std::none_of(left.begin() + ptrdiff_t(one.begin), left.begin() + ptrdiff_t(one.end),
                     [](int64_t need) { return need > 0; }))
      continue;
    taken.push_back(one);
    for (size_t part = one.begin; part < one.end; ++part) left[part] -= int64_t(lap_[one.at].nbytes);
  }
  for (auto one = taken.rbegin(); one != taken.rend(); ++one) {
    const int64_t nbytes = int64_t(lap_[one->at].nbytes);
    if (std::all_of(left.begin() + ptrdiff_t(one->begin), left.begin() + ptrdiff_t(one->end),
                    [nbytes](int64_t need) { return need + nbytes <= 0; }))
      for (size_t part = one->begin; part < one->end; ++part) left[part] += nbytes;
    else
      chosen_.insert(lap_[one->at].key);
  }
}

}  // namespace cuplug

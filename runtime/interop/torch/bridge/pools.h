/* The private pools of one device: for CUDA graphs and torch.cuda.MemPool.
 *
 * A pool is a name that PyTorch gives. In the core it is a number in the upper bits of the streams that allocate in it. */
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "core.h"
#include "versions.h"

namespace cuplug_torch {

inline uint64_t number_of(uint64_t stream) { return stream >> CUPLUG_STREAM_BITS & CUPLUG_MOST_POOLS; }
inline uint64_t without_pool(uint64_t stream) {
  return stream & ~(uint64_t(CUPLUG_MOST_POOLS) << CUPLUG_STREAM_BITS);
}
inline uint64_t number_of_stream(cudaStream_t stream) { return reinterpret_cast<uint64_t>(stream); }

class Pools {
 public:
  using Filter = std::function<bool(cudaStream_t)>;

  bool any_underway() const { return underway_count_.load(std::memory_order_acquire) != 0; }

  /* The core's number of `stream` for an allocation now: with the pool whose filter accepts it. */
  uint64_t key(cudaStream_t stream) {
    std::lock_guard<std::mutex> guard(mutex_);
    for (size_t at = 0; at < underway_.size(); ++at) {
      const auto &[id, filter] = underway_[INNER_POOL_FIRST ? underway_.size() - 1 - at : at];
      if (filter(stream)) return key_in(pools_.at(id), stream);
    }
    return number_of_stream(stream);
  }

  void create_or_keep(const MempoolId_t &id) {
    std::lock_guard<std::mutex> guard(mutex_);
    keep(id);
  }

  void begin(const Core &core, const MempoolId_t &id, Filter filter) {
    std::lock_guard<std::mutex> guard(mutex_);
    for (const auto &one : underway_)
      TORCH_CHECK(one.first != id, "cuplug: allocations go to this private pool already");
    keep(id);
    underway_.emplace_back(id, std::move(filter));
    underway_count_.fetch_add(1, std::memory_order_release);
    core.cuda_capture(1);
  }

  void end(const Core &core, const MempoolId_t &id) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = std::find_if(underway_.begin(), underway_.end(), [&](const auto &one) { return one.first == id; });
    TORCH_CHECK(found != underway_.end(), "cuplug: no allocations go to this private pool");
    underway_.erase(found);
    underway_count_.fetch_sub(1, std::memory_order_release);
    core.cuda_capture(-1);
  }

  /* Drop one use. With the last one the pool ends: answers the core's streams that are to be forgotten. They are kept
   * for `left_by`, as long as not many others end. */
  std::vector<uint64_t> release(const MempoolId_t &id) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = pools_.find(id);
    TORCH_CHECK(found != pools_.end() && found->second.uses > 0, "cuplug: there is no such private pool");
    if (--found->second.uses > 0) return {};
    std::vector<uint64_t> keys(found->second.keys.begin(), found->second.keys.end());
    ids_.erase(found->second.number);
    pools_.erase(found);
    if (ended_.size() == MOST_ENDED) ended_.pop_front();
    ended_.emplace_back(id, keys);
    return keys;
  }

  /* The core's streams of a pool that has ended, which its memory still goes by: asked for once, right after. */
  std::vector<uint64_t> left_by(const MempoolId_t &id) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = std::find_if(ended_.rbegin(), ended_.rend(), [&](const auto &one) { return one.first == id; });
    if (found == ended_.rend()) return {};
    std::vector<uint64_t> keys = std::move(found->second);
    ended_.erase(std::next(found).base());
    return keys;
  }

  int uses(const MempoolId_t &id) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = pools_.find(id);
    TORCH_CHECK(found != pools_.end(), "cuplug: there is no such private pool");
    return found->second.uses;
  }

  /* The pool's number in the core's streams; 0 where there is no such pool. */
  uint64_t number(const MempoolId_t &id) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = pools_.find(id);
    return found == pools_.end() ? 0 : found->second.number;
  }

  /* The pool that a stream of the core's names; {0, 0} for none. */
  MempoolId_t id_of(uint64_t stream) {
    uint64_t number = number_of(stream);
    if (number == 0) return {0, 0};
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = ids_.find(number);
    return found == ids_.end() ? MempoolId_t{0, 0} : found->second;
  }

  void use_when_short(const MempoolId_t &id, bool on) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = pools_.find(id);
    if (found != pools_.end()) found->second.helps = on;
  }

  /* The core's numbers of `stream` in the pools that may serve anybody before memory is said to be short. */
  std::vector<uint64_t> helping_keys(cudaStream_t stream) {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<uint64_t> keys;
    for (auto &[id, pool] : pools_)
      if (pool.helps) keys.push_back(key_in(pool, stream));
    return keys;
  }

 private:
  struct Pool {
    uint64_t number = 0;
    int uses = 0;
    bool helps = false;
    std::set<uint64_t> keys; /* the core's streams that have allocated in it */
  };

  static constexpr size_t MOST_ENDED = 64; /* more than threads that destroy pools at one time */

  static uint64_t key_in(Pool &pool, cudaStream_t stream) {
    uint64_t key = pool.number << CUPLUG_STREAM_BITS | number_of_stream(stream);
    pool.keys.insert(key);
    return key;
  }

  void keep(const MempoolId_t &id) {
    Pool &pool = pools_[id];
    if (pool.number == 0) {
      pool.number = free_number();
      ids_[pool.number] = id;
    }
    ++pool.uses;
  }

  uint64_t free_number() {
    TORCH_CHECK(ids_.size() < CUPLUG_MOST_POOLS, "cuplug: there are ", CUPLUG_MOST_POOLS, " private pools already");
    do latest_ = latest_ % CUPLUG_MOST_POOLS + 1;
    while (ids_.count(latest_) != 0);
    return latest_;
  }

  std::mutex mutex_;
  std::map<MempoolId_t, Pool> pools_;
  std::map<uint64_t, MempoolId_t> ids_; /* by number */
  std::vector<std::pair<MempoolId_t, Filter>> underway_;
  std::deque<std::pair<MempoolId_t, std::vector<uint64_t>>> ended_; /* the latest, and which streams had allocated */
  std::atomic<int> underway_count_{0};
  uint64_t latest_ = 0;
};

}  // namespace cuplug_torch

#include "learner.h"

#include <algorithm>
#include <future>
#include <new>
#include <system_error>
#include <thread>

namespace cuplug {

/* One look at a recording. It knows nothing of the allocator, which may be gone before it ends. */
struct Learner::Search {
  uint64_t stream;
  size_t repetitions;
  std::vector<Asked> requests;
  std::vector<uint64_t> followed;
  std::unique_ptr<Follower> found;
  size_t begins = 0, look_again = 0; /* as in Learned */
  std::atomic<bool> done{false};
  std::promise<void> promise;
  std::shared_future<void> ended = promise.get_future().share();

  void run() {
    try {
      Learned learned = learned_cycle(stream, requests, repetitions, followed);
      begins = learned.begins;
      look_again = learned.look_again;
      if (learned.is_found) found = std::make_unique<Follower>(std::move(learned.cycle), repetitions);
    } catch (const std::bad_alloc &) { /* then nothing is found */
    }
    done.store(true, std::memory_order_release);
    promise.set_value();
  }
};

std::unique_ptr<Follower> Learner::due() {
  if (search_ == nullptr || !search_->done.load(std::memory_order_acquire)) return nullptr;
  if (search_->look_again != 0) next_look_ = std::min(next_look_, search_->look_again);
  const Follower *found = search_->found.get();
  bool comes_again = found != nullptr;
  if (comes_again) {
    const std::vector<uint64_t> &sizes = found->cycle.sizes;
    if ((requests_.size() - search_->begins) % sizes.size() != 0) return nullptr;
    const Asked *latest = requests_.data() + (requests_.size() - sizes.size());
    for (size_t at = 0; at < sizes.size() && comes_again; ++at) comes_again = latest[at].nbytes == sizes[at];
    if (comes_again) followed_ = sizes;
  }
  std::unique_ptr<Follower> taken = comes_again ? std::move(search_->found) : nullptr;
  search_ = nullptr;
  return taken;
}

void Learner::prepare() {
  if (requests_.size() == requests_.capacity()) requests_.reserve(requests_.empty() ? 1024 : 2 * requests_.size());
}

void Learner::asked(Block *block) {
  if (requests_.size() == policy::MOST_RECORDED) {
    requests_.clear();
    search_ = nullptr;
    next_look_ = policy::WINDOW;
    block->recorded = 0;
    ++generation_;
  }
  block->recorded = uint64_t(generation_) << 32 | requests_.size();
  requests_.push_back({block->nbytes, -1});
  if (requests_.size() >= next_look_ && search_ == nullptr) look();
}

void Learner::freed(const Block *block) {
  if (block->recorded >> 32 == generation_) requests_[block->recorded & UINT32_MAX].freed = int64_t(requests_.size());
}

void Learner::look() {
  next_look_ = requests_.size() + requests_.size() / 4;
  try {
    auto search = std::make_shared<Search>();
    search->stream = stream;
    search->repetitions = repetitions_;
    search->requests = requests_;
    search->followed = followed_;
    if (at_once_)
      search->run();
    else
      std::thread([search] { search->run(); }).detach();
    search_ = std::move(search);
  } catch (const std::bad_alloc &) { /* another time */
  } catch (const std::system_error &) { /* there can be no more threads: another time */
  }
}

void Learner::wait(const Search &search) { search.ended.wait(); }

}  // namespace cuplug

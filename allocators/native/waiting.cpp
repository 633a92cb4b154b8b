#include "waiting.h"

#include <algorithm>

namespace cuplug {

void Waiting::add(Block *block) {
  const std::vector<Wait> &fences = block->uses->fences;
  tickets_.reserve(fences.size());
  queues_.reserve(queues_.size() + fences.size());
  block->uses->remaining = fences.size();
  for (const Wait &wait : fences) {
    Ticket *ticket = tickets_.take();
    ticket->block = block;
    ticket->fence = wait.fence;
    ticket->next_spare = nullptr;
    auto queue =
        std::find_if(queues_.begin(), queues_.end(), [&](const Queue &other) { return other.key == wait.key; });
    if (queue == queues_.end()) {
      queues_.push_back({wait.key, ticket, ticket});
    } else if (queue->first == nullptr) { /* emptied by a poll that failed */
      queue->first = queue->last = ticket;
    } else {
      queue->last->next_spare = ticket;
      queue->last = ticket;
    }
  }
}

void Waiting::clear() {
  for (Queue &queue : queues_) {
    while (queue.first != nullptr) {
      Ticket *ticket = queue.first;
      queue.first = ticket->next_spare;
      ticket->fence = FenceRef();
      tickets_.give(ticket);
    }
  }
  queues_.clear();
}

}  // namespace cuplug

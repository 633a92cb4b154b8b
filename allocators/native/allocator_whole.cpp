/* What an allocator does seldom, and with everything that it has. */
#include <algorithm>
#include <thread>

#include "allocator.h"
#include "pages.h"

namespace cuplug {

std::vector<Block *> Allocator::in_use() {
  std::vector<Block *> found;
  parts_.each([&](Block &part) {
    if (part.kind == USED) found.push_back(&part);
  });
  std::sort(found.begin(), found.end(), [](const Block *a, const Block *b) { return a->serial < b->serial; });
  return found;
}

/* --- streams that are destroyed, and the end */

void Allocator::forget_everywhere(uint64_t stream) {
  if (state() != CUPLUG_OPEN) return;
  std::vector<Block *> blocks = in_use();
  try {
    fence_blocks_of(stream, blocks);
    forget(stream);
  } catch (...) { /* the caller may go on with the stream: what had an early fence waits for it once more */
    for (Block *block : blocks) {
      if (block->waiting || block->uses == nullptr) continue;
      const std::vector<Wait> &fences = block->uses->fences;
      if (std::none_of(fences.begin(), fences.end(), [](const Wait &wait) { return wait.key.is_fence; })) continue;
      add_stream(block, stream);
    }
    throw;
  }
}

/* Have the blocks that a stream uses, which is about to be destroyed, wait for what is queued on it now. */
void Allocator::fence_blocks_of(uint64_t stream, const std::vector<Block *> &blocks) {
  FenceRef fence;
  for (const Block *block : blocks)
    if (block->waiting)
      for (const Wait &wait : block->uses->fences) wait.fence.make_before_end_of(stream);
  for (Block *block : blocks) {
    std::vector<uint64_t> *streams = block->uses == nullptr ? nullptr : &block->uses->streams;
    auto own =
        streams == nullptr ? std::vector<uint64_t>::iterator() : std::find(streams->begin(), streams->end(), stream);
    bool uses = streams != nullptr && own != streams->end();
    if (block->stream != stream && !uses) continue;
    if (names_pool(stream) && !uses && !block->waiting) { /* the pool ends, but the stream goes on */
      block->stream = without_pool(stream);
      add_stream(block, block->stream);
      block->orphan = true;
      continue;
    }
    if (!fence) fence = upstream_.fence(stream);
    if (uses) streams->erase(own);
    uses_of(block)->fences.push_back({{fence.identity(), true}, fence});
    block->has_fences = true;
    block->has_streams.store(!block->uses->streams.empty(), std::memory_order_relaxed);
    block->orphan = block->orphan || block->stream == stream;
  }
  waiting_.clear();
  for (Block *block : blocks)
    if (block->waiting) waiting_.add(block);
}

void Allocator::close_down() {
  if (state() != CUPLUG_OPEN) return;
  await_waiting();
  bool being_freed = false; /* whether another thread is between making a block not live and returning it */
  for (Block *block : in_use()) {
    if (block->waiting) continue;
    if (block->live.exchange(0, std::memory_order_acq_rel) != 0) {
      events_.emit(FREED, block);
      take_back(block);
    } else {
      being_freed = true;
    }
  }
  while (being_freed) {
    receive(gate_.take_list());
    take_back_returned();
    std::vector<Block *> left = in_use();
    being_freed = std::any_of(left.begin(), left.end(), [](const Block *block) { return !block->waiting; });
    if (being_freed) std::this_thread::yield();
  }
  await_waiting();
  keeps_pools_ = false;
  release_all();
  closed_.store(CUPLUG_WAS_CLOSED, std::memory_order_relaxed);
}

int Allocator::keep_segments_whole() {
  bool can = false;
  const int worked = operate_on([&] { can = keep_whole(); });
  return worked != CUPLUG_OK || can ? worked : CUPLUG_NOT_SUPPORTED;
}

/* --- other processes */

int Allocator::share_pages(uint64_t address, cuplug_shared_page *shared, size_t most, size_t *count) {
  *count = 0;
  if (!has_pages() || !upstream_.shares_pages()) return CUPLUG_NOT_SUPPORTED;
  int answer = CUPLUG_OK;
  const int worked = operate_on([&] {
    check_open();
    if (!addresses_.kept()) addresses_.keep(in_use());
    const Block *block = addresses_.find(address, false);
    if (block == nullptr || is_asleep(block)) {
      answer = block == nullptr ? CUPLUG_NOT_LIVE : CUPLUG_ASLEEP;
      return;
    }
    std::vector<Page *> pages;
    pages_behind(block, pages);
    if (std::any_of(pages.begin(), pages.end(), [](const Page *page) { return page->host; })) {
      answer = CUPLUG_NOT_SUPPORTED;
      return;
    }
    *count = pages.size();
    for (size_t at = 0; at < std::min(most, pages.size()); ++at) {
      pages[at]->shared = true;
      shared[at] = {pages[at]->address, pages[at]->nbytes, upstream_.export_page(pages[at]->handle)};
    }
  });
  return worked == CUPLUG_OK ? answer : worked;
}

/* --- what there is */

void Allocator::add_piece(std::vector<cuplug_piece> &pieces, const Block *part) {
  bool used = part->kind == USED;
  int state = !used                                             ? CUPLUG_INACTIVE
              : part->live.load(std::memory_order_relaxed) != 0 ? CUPLUG_ACTIVE
                                                                : CUPLUG_PENDING;
  pieces.push_back({part->address, part->nbytes, used ? part->requested : 0, state});
}

cuplug_map *Allocator::make_map() {
  auto map = std::make_unique<OwnedMap>();
  map_segments(map->owned_segments, map->owned_pieces);
  std::sort(map->owned_segments.begin(), map->owned_segments.end(),
            [](const cuplug_segment &a, const cuplug_segment &b) { return a.address < b.address; });
  *static_cast<cuplug_map *>(map.get()) = {map->owned_segments.size(), map->owned_pieces.size(),
                                           map->owned_segments.data(), map->owned_pieces.data()};
  return map.release();
}

/* Note what is short, for whoever asked for it. */
void Allocator::note_shortage(uint64_t nbytes, uint64_t stream, uint64_t context) {
  cuplug_shortage &shortage = last_shortage();
  shortage = cuplug_shortage{};
  const Upstream::MemoryInfo memory = upstream_.memory_info();
  shortage.free_bytes = memory.free_bytes;
  shortage.total_bytes = memory.total_bytes;
  ++ledger_.num_ooms;
  events_.emit(OUT_OF_MEMORY, stream, 0, shortage.free_bytes, nbytes, context);
  shortage.requested = nbytes;
  shortage.stream = stream;
  shortage.memory_limit = memory_limit();
  shortage.allocated_bytes = ledger_.in_use();
  shortage.requested_bytes = uint64_t(ledger_.all().requested_bytes.current);
  shortage.reserved_bytes = ledger_.reserved();
  parts_.each([&](const Block &part) {
    if (part.kind != FREE || is_asleep(&part)) return;
    shortage.largest_free = std::max(shortage.largest_free, part.nbytes);
    shortage.lost_bytes += part.nbytes;
  });
}

cuplug_shortage &last_shortage() {
  static thread_local cuplug_shortage shortage;
  return shortage;
}

}  // namespace cuplug

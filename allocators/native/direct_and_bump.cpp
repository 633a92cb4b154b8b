#include "direct_and_bump.h"

#include <algorithm>

namespace cuplug {

/* --- direct */

uint64_t ReplayedDirect::rounded(uint64_t nbytes) const {
  return round_up(aligned(nbytes), granularity_);
}

Block *ReplayedDirect::take(uint64_t, uint64_t nbytes, uint64_t stream) {
  parts_.reserve(1);
  uint64_t address = reserve(nbytes, nbytes <= SMALL_BLOCK, stream);
  Block *block = parts_.take();
  block->address = address;
  block->nbytes = nbytes;
  return block;
}

void ReplayedDirect::put(Block *block) {
  release(block->address, block->nbytes, block->nbytes <= SMALL_BLOCK, block->stream);
  block->kind = SPARE;
  parts_.give(block);
}

void ReplayedDirect::map_segments(std::vector<cuplug_segment> &segments, std::vector<cuplug_piece> &pieces) {
  parts_.each([&](const Block &part) {
    if (part.kind != USED) return;
    segments.push_back({part.address, part.nbytes, part.stream, pieces.size(), 1, part.nbytes <= SMALL_BLOCK, 0});
    add_piece(pieces, &part);
  });
}

/* --- bump */

Block *ReplayedBump::take(uint64_t, uint64_t nbytes, uint64_t stream) {
  parts_.reserve(2);
  if (chunks_.empty() || chunks_.back().rest->nbytes < nbytes) {
    if (chunks_.size() == chunks_.capacity()) chunks_.reserve(2 * chunks_.size() + 64); /* so that what follows cannot fail */
    uint64_t size = std::max(chunk_size_, nbytes);
    Chunk chunk{reserve(size, false, stream), size, stream, nullptr, parts_.take()};
    chunk.first = chunk.rest;
    chunk.rest->address = chunk.address;
    chunk.rest->nbytes = size;
    chunk.rest->after = nullptr;
    chunks_.push_back(chunk);
  }
  Chunk &chunk = chunks_.back();
  Block *block = chunk.rest, *rest = parts_.take();
  rest->address = block->address + nbytes;
  rest->nbytes = block->nbytes - nbytes;
  rest->kind = rest->nbytes != 0 ? FREE : SPARE;
  rest->after = nullptr;
  block->nbytes = nbytes;
  block->after = chunk.rest = rest;
  return block;
}

void ReplayedBump::map_segments(std::vector<cuplug_segment> &segments, std::vector<cuplug_piece> &pieces) {
  for (const Chunk &chunk : chunks_) {
    size_t first = pieces.size();
    for (const Block *part = chunk.first; part != nullptr; part = part->after)
      if (part->nbytes != 0) add_piece(pieces, part);
    segments.push_back({chunk.address, chunk.nbytes, chunk.stream, first, pieces.size() - first, 0, 0});
  }
}

void ReplayedBump::release_all() {
  for (; !chunks_.empty(); chunks_.pop_back()) {
    const Chunk &chunk = chunks_.back();
    for (Block *part = chunk.first; part != nullptr; part = part->after) part->kind = SPARE;
    release(chunk.address, chunk.nbytes, false, chunk.stream);
  }
}

}  // namespace cuplug

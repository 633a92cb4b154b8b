#include "free_pieces.h"

namespace cuplug {

Block *Pool::find(uint64_t nbytes) {
  ++searches;
  Order least = order_of(nbytes, 0);
  Block *part = partial_.empty() ? nullptr : partial_.block(partial_.find(least));
  if (part != nullptr && rules_.spare_idle && rules_.max_split_size == NO_LIMIT) return part; /* as a rule */
  Block *whole = idle_.empty() ? nullptr : idle_.block(idle_.find(least));
  Block *first = part == nullptr || (whole != nullptr && order_of(whole) < order_of(part)) ? whole : part;
  if (first == nullptr || !rules_.fits(first->nbytes, nbytes)) return nullptr;
  if (rules_.spare_idle && part != nullptr && rules_.fits(part->nbytes, nbytes)) return part;
  return first;
}

Block *Pool::smallest(uint64_t nbytes) {
  ++searches;
  Order least = order_of(nbytes, 0);
  Block *part = partial_.empty() ? nullptr : partial_.block(partial_.find(least));
  Block *whole = idle_.empty() ? nullptr : idle_.block(idle_.find(least));
  return part == nullptr || (whole != nullptr && order_of(whole) < order_of(part)) ? whole : part;
}

Block *Pool::take(Block *piece, uint64_t nbytes) {
  Order was = order_of(piece);
  int64_t before = int64_t(piece->nbytes);
  bool idle = is_idle(piece);
  Block *rest = cut(piece, nbytes);
  if (rest == nullptr)
    (idle ? idle_ : partial_).erase(was);
  else if (!idle)
    partial_.replace(was, rest);
  else {
    idle_.erase(was);
    partial_.insert(rest);
  }
  count((rest != nullptr) - !idle, (rest != nullptr ? int64_t(rest->nbytes) : 0) - (idle ? 0 : before));
  return piece;
}

Block *Pool::take_new(Segment *segment, uint64_t nbytes) {
  add(segment);
  Block *piece = segment->first = first_part(parts_, segment->address, segment->nbytes, this, FREE);
  Block *rest = cut(piece, nbytes);
  if (rest != nullptr) partial_.insert(rest);
  count(rest != nullptr, rest != nullptr ? int64_t(rest->nbytes) : 0);
  return piece;
}

Block *Pool::take_at(uint64_t address, uint64_t nbytes) {
  Block *piece = nullptr;
  for (const Sorted *set : {&partial_, &idle_})
    for (Sorted::At at = set->find(order_of(nbytes, 0)); piece == nullptr && set->block(at) != nullptr; at = set->next(at))
      if (set->block(at)->address <= address && address + nbytes <= set->block(at)->end()) piece = set->block(at);
  if (piece == nullptr) return nullptr;
  bool idle = is_idle(piece);
  int64_t blocks = idle ? 0 : -1, change = idle ? 0 : -int64_t(piece->nbytes);
  set_of(piece).erase(order_of(piece));
  if (piece->address < address) {
    Block *front = piece;
    piece = split(front, address - front->address);
    partial_.insert(front);
    ++blocks;
    change += int64_t(front->nbytes);
  }
  if (piece->nbytes > nbytes) {
    Block *rest = split(piece, nbytes);
    partial_.insert(rest);
    ++blocks;
    change += int64_t(rest->nbytes);
  }
  if (blocks != 0 || change != 0) ledger_.split(blocks, change, small);
  return piece;
}

/* Cut `piece` behind `nbytes`, if the rules say so: the rest, a free piece that is not listed yet, or null. */
Block *Pool::cut(Block *piece, uint64_t nbytes) {
  return rules_.cuts(piece->nbytes, nbytes) ? split(piece, nbytes) : nullptr;
}

/* The same, whatever the rules say. */
Block *Pool::split(Block *piece, uint64_t nbytes) {
  Block *rest = cut_off(parts_, piece, nbytes);
  rest->stamp = searches;
  return rest;
}

void Pool::put(Block *block) {
  Block *before = block->before, *after = block->after, *joined = block;
  bool joins_before = before != nullptr && before->kind == FREE, joins_after = after != nullptr && after->kind == FREE;
  int64_t blocks = 0, change = 0;
  Order was = 0;
  if (joins_after) {
    was = order_of(after);
    blocks = -1;
    change = -int64_t(after->nbytes);
    join_next(parts_, block);
  }
  if (joins_before) {
    if (joins_after) partial_.erase(was);
    was = order_of(before);
    blocks -= 1;
    change -= int64_t(before->nbytes);
    join_next(parts_, before);
    joined = before;
  }
  joined->kind = FREE;
  joined->stamp = searches;
  bool was_listed = joins_before || joins_after;
  if (is_idle(joined)) {
    if (was_listed) partial_.erase(was);
    idle_.insert(joined);
  } else {
    if (was_listed)
      partial_.replace(was, joined);
    else
      partial_.insert(joined);
    blocks += 1;
    change += int64_t(joined->nbytes);
  }
  count(blocks, change);
}

void Pool::idle(std::vector<Block *> &found) const {
  for (Sorted::At at = idle_.first(); idle_.block(at) != nullptr; at = idle_.next(at)) found.push_back(idle_.block(at));
}

void Pool::add(Segment *segment) {
  segment->pool = this;
  segment->before = nullptr;
  segment->after = segments_;
  if (segments_ != nullptr) segments_->before = segment;
  segments_ = segment;
}

void Pool::remove(Segment *segment) {
  idle_.erase(order_of(segment->first));
  segment->first->kind = SPARE;
  parts_.give(segment->first);
  (segment->before != nullptr ? segment->before->after : segments_) = segment->after;
  if (segment->after != nullptr) segment->after->before = segment->before;
}

void Pool::absorb(Pool &other) {
  while (other.segments_ != nullptr) {
    Segment *segment = other.segments_;
    other.segments_ = segment->after;
    add(segment);
    for (Block *part = segment->first; part != nullptr; part = part->after) {
      part->home = this;
      if (part->kind != FREE) continue;
      prepare();
      part->stamp = searches;
      set_of(part).insert(part);
    }
  }
}

}  // namespace cuplug

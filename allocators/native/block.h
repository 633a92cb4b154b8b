/* What an allocator hands out, and everything else that address space is cut into. */
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "cuplug_allocator.h"
#include "host.h"
#include "upstream.h"

namespace cuplug {

class Allocator;
struct Uses;

/* What a part of address space is. */
enum Kind : uint8_t {
  SPARE, /* nothing: the object waits to be used */
  USED,  /* a block: in the program's hands, returned just now, or waiting for streams */
  FREE,  /* memory to be handed out */
  HOLE   /* no memory (only on virtual addresses) */
};

/* Changed inside an operation, and looked at outside one too. */
class Flag {
 public:
  operator bool() const { return is_set_.load(std::memory_order_relaxed); }
  Flag &operator=(bool set) {
    is_set_.store(set, std::memory_order_relaxed);
    return *this;
  }

 private:
  std::atomic<bool> is_set_{false};
};

constexpr uint64_t ALIGNMENT = 512; /* sizes and addresses are multiples of it (block.py) */
constexpr uint64_t MOST_BYTES = uint64_t(1) << 44; /* of a request: no device has more (request.py) */
constexpr uint64_t SMALL_BLOCK = 1 << 20;
constexpr uint64_t MIB = 1 << 20;
constexpr uint64_t NO_LIMIT = UINT64_MAX;

/* The least multiple of `unit` that is not below `nbytes`. */
constexpr uint64_t round_up(uint64_t nbytes, uint64_t unit) { return (nbytes + unit - 1) / unit * unit; }

/* A stream's number without the pool that it names, and whether it names one (upstream.py). */
constexpr uint64_t POOL_BITS = uint64_t(CUPLUG_MOST_POOLS) << CUPLUG_STREAM_BITS;
constexpr uint64_t without_pool(uint64_t stream) { return stream & ~POOL_BITS; }
constexpr bool names_pool(uint64_t stream) { return (stream & POOL_BITS) != 0; }

}  // namespace cuplug

/* A part of a segment or a range, in a list of its neighbours by address. When it is USED it is a block in the sense of
 * block.py. The first 64 bytes are what a free and an allocation touch. */
struct alignas(64) cuplug_block {
  uint64_t address = 0;
  uint64_t nbytes = 0;
  uint64_t requested = 0;
  cuplug_block *before = nullptr; /* the part that ends where this begins, in the same segment or range */
  cuplug_block *after = nullptr;
  void *home = nullptr;                  /* of the strategy: its Pool or Space */
  cuplug_block *next_returned = nullptr; /* in a list of blocks that come back */
  std::atomic<uint8_t> live{0};          /* whether it is in the program's hands */
  std::atomic<uint8_t> has_streams{0};   /* whether other streams use it (record_stream) */
  cuplug::Kind kind = cuplug::SPARE;
  cuplug::Flag has_fences; /* whether there are fences to wait for once it is freed */
  bool waiting = false;    /* whether it was freed and waits behind fences */
  cuplug::Flag orphan;     /* whether its own stream has been destroyed */
  bool nothing = false;    /* a block of zero bytes: address 0, counted nowhere */
  bool shared = false;     /* of a free part on virtual addresses: lies beside a block, and is counted so */
  bool listed = false;     /* whether it is in the table of addresses */
  /* --- what is seldom looked at */
  uint64_t stream = 0;
  cuplug::Allocator *owner = nullptr;
  cuplug::Uses *uses = nullptr; /* streams and fences, if it ever had any */
  uint64_t serial = 0;          /* the number of its allocation */
  uint64_t stamp = 0;           /* of a free part: when it was freed, in its strategy's own counting */
  void *user = nullptr;         /* the program's own */
  uint64_t recorded = 0;        /* its number in a recording of `planned`, and which one that is; 0 for none */
  uint64_t slot = 0;            /* of a hole: its place among the holes of its space */
  cuplug_block *next_spare = nullptr;

  uint64_t end() const { return address + nbytes; }
};

namespace cuplug {

using Block = cuplug_block;

/* The only part of what has just come from upstream. */
inline Block *first_part(Store<Block> &parts, uint64_t address, uint64_t nbytes, void *home, Kind kind) {
  Block *part = parts.take();
  part->address = address;
  part->nbytes = nbytes;
  part->before = part->after = nullptr;
  part->home = home;
  part->kind = kind;
  part->stamp = 0;
  return part;
}

/* Cut `part` behind `nbytes`, and return the rest: of the same kind and home, and as old. */
inline Block *cut_off(Store<Block> &parts, Block *part, uint64_t nbytes) {
  Block *rest = parts.take();
  rest->address = part->address + nbytes;
  rest->nbytes = part->nbytes - nbytes;
  rest->home = part->home;
  rest->kind = part->kind;
  rest->stamp = part->stamp;
  rest->before = part;
  rest->after = part->after;
  if (rest->after != nullptr) rest->after->before = rest;
  part->nbytes = nbytes;
  part->after = rest;
  return rest;
}

/* Take the next part into `part`. */
inline void join_next(Store<Block> &parts, Block *part) {
  Block *next = part->after;
  part->nbytes += next->nbytes;
  part->after = next->after;
  if (part->after != nullptr) part->after->before = part;
  next->kind = SPARE;
  parts.give(next);
}

/* What a block waits for: a fence, and its key, which is the stream or, for a destroyed stream, the fence itself. */
struct Key {
  uint64_t value;
  bool is_fence;
  bool operator==(const Key &other) const { return value == other.value && is_fence == other.is_fence; }
};
struct Wait {
  Key key;
  FenceRef fence;
};

/* The streams that use a block besides its own, and its fences once it is freed. */
struct Uses {
  std::vector<uint64_t> streams; /* sorted, each once */
  std::vector<Wait> fences;
  size_t remaining = 0; /* how many of the fences have not passed yet */
  Uses *next_spare = nullptr;
};

}  // namespace cuplug

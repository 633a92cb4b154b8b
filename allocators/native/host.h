/* Host memory of the core: objects of one type that are made once and used again and again. */
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace cuplug {

/* Take those out of `items` of which `goes` says so. */
template <class Items, class Goes>
void drop_if(Items &items, Goes goes) {
  items.erase(std::remove_if(items.begin(), items.end(), goes), items.end());
}

/* Objects of type T in pieces of PER_PIECE, given out and taken back without a call of the system's allocator. They stay
 * constructed all the time, and their memory stays where it is until the store itself goes: a stale pointer to one that
 * was taken back still points to a T. Not thread-safe. */
template <class T, size_t PER_PIECE = 256>
class Store {
 public:
  Store() = default;
  Store(const Store &) = delete;
  Store &operator=(const Store &) = delete;

  /* Make sure that the next `count` calls of `take` cannot fail. Throws std::bad_alloc: nothing has changed. */
  void reserve(size_t count) {
    if (spare_ < count) add_pieces(count);
  }

  T *take() {
    if (spare_ == 0) add_pieces(1);
    T *object = free_;
    free_ = object->next_spare;
    --spare_;
    return object;
  }

  void give(T *object) {
    object->next_spare = free_;
    free_ = object;
    ++spare_;
  }

  /* How many objects are given out. */
  size_t given() const { return pieces_.size() * PER_PIECE - spare_; }

  /* Call `work` with every object, given out or not. */
  template <class Work>
  void each(Work work) {
    for (auto &piece : pieces_)
      for (size_t at = 0; at < PER_PIECE; ++at) work(piece[at]);
  }

 private:
  __attribute__((noinline)) void add_pieces(size_t count) {
    while (spare_ < count) {
      std::unique_ptr<T[]> made(new T[PER_PIECE]);
      T *piece = made.get();
      pieces_.push_back(std::move(made));
      for (size_t at = PER_PIECE; at-- > 0;) give(&piece[at]);
    }
  }

  T *free_ = nullptr;
  size_t spare_ = 0;
  std::vector<std::unique_ptr<T[]>> pieces_;
};

/* A table from 64-bit numbers to pointers: open addressing, at most half full. Not thread-safe. */
template <class T>
class Table {
 public:
  T *find(uint64_t key) const {
    if (entries_.empty()) return nullptr;
    for (size_t at = place(key);; at = (at + 1) & mask()) {
      if (entries_[at].value == nullptr) return nullptr;
      if (entries_[at].key == key) return entries_[at].value;
    }
  }

  /* Make sure that the next insertion cannot fail. */
  void prepare() {
    if ((count_ + 1) * 2 > entries_.size()) grow();
  }

  void insert(uint64_t key, T *value) {
    prepare();
    ++count_;
    put(key, value);
  }

  /* Take `key` out, if it is in. */
  void erase(uint64_t key) {
    if (entries_.empty()) return;
    size_t at = place(key);
    while (entries_[at].value != nullptr && entries_[at].key != key) at = (at + 1) & mask();
    if (entries_[at].value == nullptr) return;
    --count_;
    size_t gap = at; /* close it: what was pushed behind its own place moves up */
    for (size_t next = (gap + 1) & mask(); entries_[next].value != nullptr; next = (next + 1) & mask()) {
      size_t home = place(entries_[next].key);
      if (((next - home) & mask()) >= ((next - gap) & mask())) {
        entries_[gap] = entries_[next];
        gap = next;
      }
    }
    entries_[gap].value = nullptr;
  }

  size_t size() const { return count_; }

  template <class Work>
  void each(Work work) const {
    for (const Entry &entry : entries_)
      if (entry.value != nullptr) work(entry.value);
  }

 private:
  struct Entry {
    uint64_t key = 0;
    T *value = nullptr;
  };

  size_t mask() const { return entries_.size() - 1; }
  size_t place(uint64_t key) const { return ((key * 0x9E3779B97F4A7C15u) >> 20) & mask(); }

  void put(uint64_t key, T *value) {
    size_t at = place(key);
    while (entries_[at].value != nullptr && entries_[at].key != key) at = (at + 1) & mask();
    entries_[at] = Entry{key, value};
  }

  void grow() {
    std::vector<Entry> before(entries_.empty() ? 64 : entries_.size() * 2);
    before.swap(entries_);
    for (const Entry &entry : before)
      if (entry.value != nullptr) put(entry.key, entry.value);
  }

  std::vector<Entry> entries_;
  size_t count_ = 0;
};

}  // namespace cuplug

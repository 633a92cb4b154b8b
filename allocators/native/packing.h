/* Packing of buffers whose lifetimes are known into as little memory as may be. Knows no interpreter and no device. */
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace cuplug {

/* Lives from `lower` until `upper`, exclusive; needs `size` in one piece. */
struct Buffer {
  int64_t lower, upper, size;
};

enum class Search { FOUND, NONE, GAVE_UP };

/* Asked now and then, from the searching thread: whether to go on. */
using GoesOn = std::function<bool()>;

/* Places every buffer so that no two that live at once overlap and none ends above `capacity`, or finds that this cannot
 * be. `offsets` is filled where it was found. */
Search search_packing(const std::vector<Buffer> &buffers, int64_t capacity, const GoesOn &goes_on,
                      std::vector<int64_t> *offsets);

/* Places the buffers one by one, in the given order, each at the lowest offset that is free throughout its life; those
 * with an offset of zero or more lie there already. Returns the end of the highest, or -1 once `goes_on` says no. */
int64_t place_in_order(const std::vector<Buffer> &buffers, const std::vector<int64_t> &order,
                       std::vector<int64_t> *offsets, const GoesOn &goes_on = {});

/* The most bytes that live at once. */
int64_t load_peak(const std::vector<Buffer> &buffers);

/* Places the buffers as an allocator would that has no future: in the order of their begins, of several at once the
 * largest first, each in the smallest gap that it fits into, else on top. Takes n log n steps. Returns the end of the
 * highest (packing.py: place_in_time). */
int64_t place_in_time(const std::vector<Buffer> &buffers, std::vector<int64_t> *offsets);

}  // namespace cuplug

/* Options of the strategies, from text, with the rules of the Python constructors. */
#pragma once

#include <cstddef>
#include <string>

#include "allocator.h"

namespace cuplug {

/* An option is out of its range; `message` says which, and what it may be. */
struct Invalid {
  std::string message;
};

/* A new allocator. Throws Invalid, Stopped or std::bad_alloc. */
Allocator *make_allocator(const char *strategy, const cuplug_option *options, size_t count,
                          const cuplug_upstream &table);

}  // namespace cuplug

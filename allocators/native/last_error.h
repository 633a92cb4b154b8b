/* The sentence that cuplug_last_error() answers in the calling thread. */
#pragma once

namespace cuplug {

void set_last_error(const char *sentence);

}  // namespace cuplug

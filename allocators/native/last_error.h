/* The sentence that cuplug_last_error() answers in the calling thread. */
#ifndef CUPLUG_LAST_ERROR_H
#define CUPLUG_LAST_ERROR_H

namespace cuplug {

void set_last_error(const char *sentence);

}  // namespace cuplug
#endif

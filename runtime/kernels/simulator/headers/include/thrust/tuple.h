// Tuples of thrust, which are the standard's by another name.
#pragma once
#include <tuple>
namespace thrust {
using std::get;
using std::make_tuple;
using std::tie;
using std::tuple;
using std::tuple_element;
using std::tuple_size;
}  // namespace thrust

// Pairs of thrust, which are the standard's by another name.
#pragma once
#include <utility>
namespace thrust {
using std::make_pair;
using std::pair;
}  // namespace thrust

// thrust's complex numbers, which are the standard's by another name.
#pragma once
#include <complex>
namespace thrust {
using std::abs;
using std::arg;
using std::complex;
using std::conj;
using std::cos;
using std::exp;
using std::log;
using std::norm;
using std::polar;
using std::pow;
using std::sin;
using std::sqrt;
}  // namespace thrust

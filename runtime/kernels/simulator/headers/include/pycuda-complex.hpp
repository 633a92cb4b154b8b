// PyCUDA's complex numbers (pycuda::complex), for machines without PyCUDA and for the simulator.
#pragma once
#ifdef CUPLUG_SCAN
#pragma cuplug_include pycuda-complex.hpp
#else
namespace pycuda {

template <class T> struct complex {
    typedef T value_type;
    T _M_re, _M_im;

    complex(T re = 0, T im = 0) : _M_re(re), _M_im(im) {}
    template <class U> complex(const complex<U>& z) : _M_re((T)z._M_re), _M_im((T)z._M_im) {}
    T real() const { return _M_re; }
    T imag() const { return _M_im; }
    complex& operator+=(const complex& z) { return *this = *this + z; }
    complex& operator-=(const complex& z) { return *this = *this - z; }
    complex& operator*=(const complex& z) { return *this = *this * z; }
    complex& operator/=(const complex& z) { return *this = *this / z; }
    // Found for any argument that converts, on either side.
    friend complex operator+(const complex& a, const complex& b) { return {a._M_re + b._M_re, a._M_im + b._M_im}; }
    friend complex operator-(const complex& a, const complex& b) { return {a._M_re - b._M_re, a._M_im - b._M_im}; }
    friend complex operator*(const complex& a, const complex& b) {
        return {a._M_re * b._M_re - a._M_im * b._M_im, a._M_re * b._M_im + a._M_im * b._M_re};
    }
    friend complex operator/(const complex& a, const complex& b) {
        if (::fabs(b._M_re) >= ::fabs(b._M_im)) {  // no product overflows before the quotient does
            const T ratio = b._M_im / b._M_re, scale = 1 / (b._M_re + ratio * b._M_im);
            return {(a._M_re + ratio * a._M_im) * scale, (a._M_im - ratio * a._M_re) * scale};
        }
        const T ratio = b._M_re / b._M_im, scale = 1 / (b._M_im + ratio * b._M_re);
        return {(ratio * a._M_re + a._M_im) * scale, (ratio * a._M_im - a._M_re) * scale};
    }
    friend complex operator+(const complex& z) { return z; }
    friend complex operator-(const complex& z) { return {-z._M_re, -z._M_im}; }
    friend bool operator==(const complex& a, const complex& b) { return a._M_re == b._M_re && a._M_im == b._M_im; }
    friend bool operator!=(const complex& a, const complex& b) { return !(a == b); }
};

template <class T> inline T real(const complex<T>& z) { return z._M_re; }
template <class T> inline T imag(const complex<T>& z) { return z._M_im; }
template <class T> inline T abs(const complex<T>& z) { return ::hypot(z._M_re, z._M_im); }
template <class T> inline T arg(const complex<T>& z) { return ::atan2(z._M_im, z._M_re); }
template <class T> inline T norm(const complex<T>& z) { return z._M_re * z._M_re + z._M_im * z._M_im; }
template <class T> inline complex<T> conj(const complex<T>& z) { return {z._M_re, -z._M_im}; }
template <class T> inline complex<T> polar(const T& size, const T& angle = 0) {
    return {size * ::cos(angle), size * ::sin(angle)};
}
template <class T> inline complex<T> exp(const complex<T>& z) { return polar<T>(::exp(z._M_re), z._M_im); }
template <class T> inline complex<T> log(const complex<T>& z) { return {::log(abs(z)), arg(z)}; }
template <class T> inline complex<T> log10(const complex<T>& z) { return log(z) / complex<T>((T)M_LN10); }
template <class T> inline complex<T> sqrt(const complex<T>& z) {
    const T size = abs(z), part = ::sqrt((size + ::fabs(z._M_re)) / 2);
    if (part == 0) return {};
    if (z._M_re >= 0) return {part, z._M_im / (2 * part)};
    return {::fabs(z._M_im) / (2 * part), ::copysign(part, z._M_im)};
}
template <class T> inline complex<T> pow(const complex<T>& z, const complex<T>& power) {
    return z == complex<T>() ? complex<T>(power == complex<T>()) : exp(power * log(z));
}
template <class T> inline complex<T> pow(const complex<T>& z, double power) { return pow(z, complex<T>((T)power)); }
template <class T> inline complex<T> pow(double x, const complex<T>& power) { return pow(complex<T>((T)x), power); }
template <class T> inline complex<T> pow(complex<T> z, int power) {
    complex<T> result(1);
    for (int rest = power < 0 ? -power : power; rest; rest >>= 1, z *= z)
        if (rest & 1) result *= z;
    return power < 0 ? complex<T>(1) / result : result;
}
template <class T> inline complex<T> sin(const complex<T>& z) {
    return {::sin(z._M_re) * ::cosh(z._M_im), ::cos(z._M_re) * ::sinh(z._M_im)};
}
template <class T> inline complex<T> cos(const complex<T>& z) {
    return {::cos(z._M_re) * ::cosh(z._M_im), -::sin(z._M_re) * ::sinh(z._M_im)};
}
template <class T> inline complex<T> sinh(const complex<T>& z) {
    return {::sinh(z._M_re) * ::cos(z._M_im), ::cosh(z._M_re) * ::sin(z._M_im)};
}
template <class T> inline complex<T> cosh(const complex<T>& z) {
    return {::cosh(z._M_re) * ::cos(z._M_im), ::sinh(z._M_re) * ::sin(z._M_im)};
}
template <class T> inline complex<T> tan(const complex<T>& z) { return sin(z) / cos(z); }
template <class T> inline complex<T> tanh(const complex<T>& z) { return sinh(z) / cosh(z); }

}  // namespace pycuda
#endif

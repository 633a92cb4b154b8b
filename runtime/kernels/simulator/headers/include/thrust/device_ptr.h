// thrust's pointers to device memory, as kernels use them that get one for a parameter.
#pragma once
#include <iterator>
namespace thrust {
template <class T> class device_ptr {
public:
    typedef T element_type;
    typedef typename __cuplug::Plain<T>::type value_type;
    typedef long difference_type;
    typedef T* pointer;
    typedef T& reference;
    typedef std::random_access_iterator_tag iterator_category;
    device_ptr() : address(nullptr) {}
    template <class U> explicit device_ptr(U* address) : address(address) {}
    template <class U> device_ptr(const device_ptr<U>& other) : address(other.get()) {}
    T* get() const { return address; }
    T& operator*() const { return *address; }
    T* operator->() const { return address; }
    template <class I> T& operator[](I index) const { return address[index]; }
    template <class I> device_ptr operator+(I offset) const { return device_ptr(address + offset); }
    template <class I> device_ptr operator-(I offset) const { return device_ptr(address - offset); }
    long operator-(device_ptr other) const { return address - other.address; }
    device_ptr& operator++() { return ++address, *this; }
    device_ptr& operator--() { return --address, *this; }
    device_ptr operator++(int) { return device_ptr(address++); }
    device_ptr operator--(int) { return device_ptr(address--); }
    template <class I> device_ptr& operator+=(I offset) { return address += offset, *this; }
    template <class I> device_ptr& operator-=(I offset) { return address -= offset, *this; }
    bool operator==(device_ptr other) const { return address == other.address; }
    bool operator!=(device_ptr other) const { return address != other.address; }
    bool operator<(device_ptr other) const { return address < other.address; }

private:
    T* address;
};
template <class T> inline T* raw_pointer_cast(device_ptr<T> pointer) { return pointer.get(); }
template <class T> inline T* raw_pointer_cast(T* pointer) { return pointer; }
template <class T> inline device_ptr<T> device_pointer_cast(T* pointer) { return device_ptr<T>(pointer); }
}  // namespace thrust

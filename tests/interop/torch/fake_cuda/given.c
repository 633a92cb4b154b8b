/* The functions of an allocator that a program brings along, over addresses of no memory. They count. */
#include <stddef.h>

static size_t top = 0x500000000000;
long allocated = 0, freed = 0;

void *given_malloc(ptrdiff_t nbytes, int device, void *stream) {
  void *address = (void *)top;
  ++allocated;
  top += (nbytes + 4095) & ~4095L;
  return address;
}
void given_free(void *address, ptrdiff_t nbytes, int device, void *stream) { ++freed; }

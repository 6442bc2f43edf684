/* The four memory functions that compilers call on their own, for programs linked with -nostdlib.
 *
 * Cost is counted in instructions, so data moves eight bytes at a time. Loads may be at any address (the
 * machine has misaligned loads; they cost more than aligned ones, but far less than eight loads of a
 * byte); stores are aligned. */

#include <stddef.h>
#include <stdint.h>

/* gcc would turn the loops below into calls of the very functions they implement; clang is told by
 * -ffreestanding. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

typedef uint64_t __attribute__((may_alias)) word;

/* The eight bytes at any address. In assembly, because C would split a misaligned load into bytes. */
static inline uint64_t load(const unsigned char *p)
{
    uint64_t value;
    __asm__("ld %0, 0(%1)" : "=r"(value) : "r"(p), "m"(*(const unsigned char(*)[8])p));
    return value;
}

static inline int aligned(const unsigned char *p)
{
    return ((uintptr_t)p & 7) == 0;
}

/* Right for overlapping regions if dst is not above src: what a store overwrites has been loaded. */
static void copy_up(unsigned char *dst, const unsigned char *src, size_t n)
{
    for (; n > 0 && !aligned(dst); n--)
        *dst++ = *src++;
    for (; n >= 8; n -= 8, dst += 8, src += 8)
        *(word *)dst = load(src);
    for (; n > 0; n--)
        *dst++ = *src++;
}

/* Right for overlapping regions if dst is not below src. */
static void copy_down(unsigned char *dst, const unsigned char *src, size_t n)
{
    for (; n > 0 && !aligned(dst + n); n--)
        dst[n - 1] = src[n - 1];
    for (; n >= 8; n -= 8)
        *(word *)(dst + n - 8) = load(src + n - 8);
    for (; n > 0; n--)
        dst[n - 1] = src[n - 1];
}

void *memcpy(void *restrict dst, const void *restrict src, size_t n)
{
    copy_up(dst, src, n);
    return dst;
}

void *memmove(void *dst, const void *src, size_t n)
{
    if ((uintptr_t)dst <= (uintptr_t)src)
        copy_up(dst, src, n);
    else
        copy_down(dst, src, n);
    return dst;
}

void *memset(void *dst, int value, size_t n)
{
    unsigned char *d = dst;
    const uint64_t pattern = (unsigned char)value * 0x0101010101010101ULL;
    for (; n > 0 && !aligned(d); n--)
        *d++ = (unsigned char)value;
    for (; n >= 8; n -= 8, d += 8)
        *(word *)d = pattern;
    for (; n > 0; n--)
        *d++ = (unsigned char)value;
    return dst;
}

int memcmp(const void *left, const void *right, size_t n)
{
    const unsigned char *l = left, *r = right;
    for (; n >= 8 && load(l) == load(r); n -= 8, l += 8, r += 8)
        ;
    for (; n > 0; n--, l++, r++)
        if (*l != *r)
            return *l - *r;
    return 0;
}

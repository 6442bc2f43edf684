/* The n-th Fibonacci number modulo 2^64, for n = the u64 in the private input: commits n and fib(n), so
 * that the proof says which number it is about. fib(0) = 0, fib(1) = 1. */

#include "tailbite.h"

static uint64_t read_n(void)
{
    static const char message[] = "fib: the input must be one u64 (8 bytes)";
    if (tb_input_len() != 8)
        tb_panic(message, sizeof message - 1);
    uint64_t n = 0;
    for (int i = 0; i < 8; i++)
        n |= (uint64_t)tb_input()[i] << 8 * i;
    return n;
}

static uint64_t fib(uint64_t n)
{
    uint64_t current = 0, next = 1;
    for (; n > 0; n--) {
        uint64_t sum = current + next;
        current = next;
        next = sum;
    }
    return current;
}

int main(void)
{
    const uint64_t n = read_n();
    const uint64_t output[2] = {n, fib(n)};
    tb_commit(output, sizeof output);
    return 0;
}

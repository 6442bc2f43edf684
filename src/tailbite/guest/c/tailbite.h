/* Tailbite guest interface for C: the calls of the machine and its private input.
 *
 * A call is an ECALL with its number in a7, arguments from a0 on, result in a0. An instruction is one
 * cycle, and every committed byte one more. The machine is RV64IM, little endian. */
#ifndef TAILBITE_H
#define TAILBITE_H

#include <stddef.h>
#include <stdint.h>

#define TB_PRINT 1
#define TB_PANIC 2
#define TB_COMMIT 64
#define TB_HALT 93
#define TB_KECCAK_PERMUTE (-2)
#define TB_CYCLES (-32)

/* The private input lies here: its length as a u32, then its bytes. Nothing about it is public. */
#define TB_INPUT_ADDRESS 0xFF000000UL

/* A call with one argument. Registers beyond it are not set: every instruction counts. */
static inline long tb_call1(long number, long argument)
{
    register long a0 __asm__("a0") = argument;
    register long a7 __asm__("a7") = number;
    /* a0 is read and written: some calls return there. Memory: calls read and write through their
     * pointers. */
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
    return a0;
}

/* A call with three arguments. */
static inline long tb_call3(long number, long first, long second, long third)
{
    register long a0 __asm__("a0") = first;
    register long a1 __asm__("a1") = second;
    register long a2 __asm__("a2") = third;
    register long a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}

/* Appends n bytes to the public output, at most 2^20 bytes in all. The bytes may not cross a multiple of
 * 2^32. */
static inline void tb_commit(const void *p, size_t n)
{
    tb_call3(TB_COMMIT, 1, (long)p, (long)n);
}

/* Ends the program. Only code 0 can be proved. */
__attribute__((noreturn)) static inline void tb_halt(int code)
{
    tb_call1(TB_HALT, code);
    __builtin_unreachable();
}

/* Ends the program with a message of len bytes for the host. No proof exists of a run that panics. */
__attribute__((noreturn)) static inline void tb_panic(const char *message, size_t len)
{
    tb_call3(TB_PANIC, (long)message, (long)len, 0);
    __builtin_unreachable();
}

/* Writes n bytes to the host's log. In a proof it is a step without effect. */
static inline void tb_print(const void *p, size_t n)
{
    tb_call3(TB_PRINT, (long)p, (long)n, 0);
}

/* Applies Keccak-f[1600] to 25 words in place: word x + 5y is lane (x, y). */
static inline void tb_keccak_permute(uint64_t state[25])
{
    tb_call1(TB_KECCAK_PERMUTE, (long)state);
}

/* Cycles executed before this call. */
static inline uint64_t tb_cycles(void)
{
    return (uint64_t)tb_call1(TB_CYCLES, 0);
}

/* Length of the private input in bytes. */
static inline size_t tb_input_len(void)
{
    return *(const volatile uint32_t *)TB_INPUT_ADDRESS;
}

/* The first byte of the private input; its address is 4 modulo 8. */
static inline const uint8_t *tb_input(void)
{
    return (const uint8_t *)(TB_INPUT_ADDRESS + 4);
}

#endif

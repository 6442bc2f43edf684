/* Benchmark guest: Fibonacci modulo 2^64 in a loop of exactly five instructions, commits fib(ITERATIONS) as a
 * u64.
 *
 * Instructions: 4 before the loop, 5 an iteration, 9 after it. Cycles: one an instruction and one a
 * committed byte, so 5 * ITERATIONS + 21. With 209711 iterations that is 2^20 = 1048576, with 13103 it is
 * 2^16 = 65536. */

#ifndef ITERATIONS
#error "define ITERATIONS"
#endif

        .file   "fib_loop.S"
        .section .text.start, "ax", @progbits
        .globl  _start
        .type   _start, @function
_start:
        li      t0, 0                           /* fib(0) */
        li      t1, 1                           /* fib(1) */
        lui     t2, %hi(ITERATIONS)
        addi    t2, t2, %lo(ITERATIONS)
loop:
        add     t3, t0, t1
        mv      t0, t1
        mv      t1, t3
        addi    t2, t2, -1
        bne     t2, zero, loop

        sd      t0, -8(sp)
        li      a0, 1
        addi    a1, sp, -8
        li      a2, 8
        li      a7, 64                          /* COMMIT */
        ecall
        li      a0, 0
        li      a7, 93                          /* HALT */
        ecall
        .size   _start, . - _start

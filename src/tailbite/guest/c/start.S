/* Entry point of C guests: calls main and halts with its result, so that only a main returning 0 can be
 * proved.
 *
 * Nothing is set up, because nothing needs to be: the machine starts with sp at the top of the address
 * space and memory that reads as zero, and link.ld defines no __global_pointer$, so no linker emits
 * accesses through gp. */

        .file   "start.S"               /* else the linker names a temporary file */
        .section .text.start, "ax", @progbits
        .globl  _start
        .type   _start, @function
_start:
        call    main
        li      a7, 93          /* TB_HALT in tailbite.h */
        ecall
        .size   _start, . - _start

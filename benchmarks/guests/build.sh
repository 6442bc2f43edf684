#!/bin/sh
# Builds fib_loop_16.elf and fib_loop_20.elf (2^16 and 2^20 cycles) into OUT, by default beside this file.
set -eu
cd "$(dirname "$0")"

fib_loop() {
    riscv64-unknown-elf-gcc -march=rv64im -mabi=lp64 -nostdlib -Wl,-T,fib_loop.ld -Wl,--build-id=none \
        -DITERATIONS="$2" -o "${OUT:-.}/$1.elf" fib_loop.S
}

fib_loop fib_loop_16 13103
fib_loop fib_loop_20 209711

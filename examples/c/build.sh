#!/bin/sh
# Builds example guests with one of three compilers: elf/PROGRAM.COMPILER.elf for each PROGRAM (sha256, fib).
#
#   ./build.sh gcc|clang|zig PROGRAM...          OUT=DIRECTORY changes where to
#
# Paths are relative, and neither build ids nor debug information are kept, so that the same compiler version
# gives the same bytes everywhere. Symbols stay: they name functions in error messages and profiles.
set -eu
cd "$(dirname "$0")"

guest=../../src/tailbite/guest/c
common="-std=c11 -O2 -g0 -Wall -Wextra -ffreestanding -nostdlib -ffunction-sections -I$guest"
link="-Wl,-T,$guest/link.ld -Wl,--gc-sections -Wl,--build-id=none"

with_gcc() {
    riscv64-unknown-elf-gcc -march=rv64im -mabi=lp64 $common $link "$@"
}

with_clang() {
    clang-19 --target=riscv64-unknown-elf -march=rv64im -mabi=lp64 -fuse-ld=lld-19 $common $link "$@"
}

# zig refuses -march=rv64im, and turns the sanitizer on by default.
with_zig() {
    python3 -m ziglang cc -target riscv64-freestanding -mcpu=generic_rv64+m -mabi=lp64 -fno-sanitize=all \
        $common $link "$@"
}

compiler=$1
shift
for program in "$@"; do
    "with_$compiler" -o "${OUT:-elf}/$program.$compiler.elf" "$guest/start.S" "$guest/mem.c" "$program.c"
done

"""SHA-256 (FIPS 180-4) of a private file: ``tailbite prove examples/sha256.py @README.md``.

The proof shows a digest, and that the prover knows a file that has it.
"""

import tailbite
from tailbite import Array, Bytes, Constants, Private, Slice, function, length, rotr, u32, u64


def root_bits(power: int) -> list[int]:
    """First 32 bits of the fractional parts of the square (2) or cube (3) roots of the first primes."""
    primes = [p for p in range(2, 312) if all(p % q for q in range(2, p))]
    out = []
    for p in primes:
        n, x = p << (32 * power), 1 << 40
        while x**power > n:  # Newton's iteration from above
            x = ((power - 1) * x + n // x ** (power - 1)) // power
        out.append(x & 0xFFFFFFFF)
    return out


K = Constants(root_bits(3))
H = root_bits(2)[:8]


@function
def byte_at(message: Slice[tailbite.u8], i: u64) -> u32:
    """Byte ``i`` of the padded message without its length: the message, 0x80, zeros."""
    if i < length(message):
        return u32(message[i])
    if i == length(message):
        return u32(0x80)
    return u32(0)


@function
def compress(state: Slice[u32], w: Slice[u32]) -> None:
    """One block: ``w`` holds its 16 words, and room for the schedule's 64."""
    for i in range(16, 64):
        x, y = w[i - 15], w[i - 2]
        s0 = rotr(x, 7) ^ rotr(x, 18) ^ (x >> 3)
        s1 = rotr(y, 17) ^ rotr(y, 19) ^ (y >> 10)
        w[i] = w[i - 16] + s0 + w[i - 7] + s1
    a, b, c, d = state[0], state[1], state[2], state[3]
    e, f, g, h = state[4], state[5], state[6], state[7]
    for i in range(64):
        s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)
        t1 = h + s1 + ((e & f) ^ (~e & g)) + u32(K[i]) + w[i]
        s0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)
        t2 = s0 + ((a & b) ^ (a & c) ^ (b & c))
        h, g, f, e = g, f, e, d + t1
        d, c, b, a = c, b, a, t1 + t2
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
    state[4] += e
    state[5] += f
    state[6] += g
    state[7] += h


@tailbite.guest
def sha256(message: Private[Bytes]) -> None:
    """Commit the 32 bytes of the digest."""
    state = Array[u32, 8]()
    for k in tailbite.unroll(range(8)):
        state[k] = u32(H[k])
    w = Array[u32, 64]()
    n = length(message)
    blocks = (n + 72) >> 6  # with one byte of padding and eight of length
    for block in range(blocks):
        for i in range(16):
            at = (block << 6) + (i << 2)
            w[i] = (byte_at(message, at) << 24 | byte_at(message, at + 1) << 16
                    | byte_at(message, at + 2) << 8 | byte_at(message, at + 3))
        if block == blocks - 1:
            w[14] = u32(n >> 29)
            w[15] = u32(n << 3)
        compress(state, w)
    digest = Array[tailbite.u8, 32]()
    for i in range(32):
        digest[i] = tailbite.u8(state[i >> 2] >> (24 - ((u32(i) & 3) << 3)))
    tailbite.commit(digest)

/* SHA-256 of the private input (FIPS 180-4): the 32-byte digest becomes the public output. */

#include "tailbite.h"

typedef struct {
    uint32_t word[8];
} state_t;

/* FIPS 180-4 section 5.3.3: square roots of the first eight primes, the first 32 bits of their fractional
 * parts. */
static const state_t INITIAL = {{
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
}};

/* Section 4.2.2: the same of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be32(uint8_t *p, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> (24 - 8 * i));
}

/* Section 6.2.2, step 1: the message schedule. */
static void schedule(uint32_t w[64], const uint8_t block[64])
{
    for (int t = 0; t < 16; t++)
        w[t] = load_be32(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
}

/* Section 6.2.2, steps 2 to 4: one block of 64 bytes. */
static void compress(state_t *state, const uint8_t block[64])
{
    uint32_t w[64];
    schedule(w, block);

    uint32_t a = state->word[0], b = state->word[1], c = state->word[2], d = state->word[3];
    uint32_t e = state->word[4], f = state->word[5], g = state->word[6], h = state->word[7];
    for (int t = 0; t < 64; t++) {
        uint32_t t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t];
        uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    const state_t sum = {{a, b, c, d, e, f, g, h}};
    for (int i = 0; i < 8; i++)
        state->word[i] += sum.word[i];
}

/* Section 5.1.1: the rest of the message (below 64 bytes), a one bit, zeros, and the length in bits: one
 * or two blocks. */
static void finish(state_t *state, const uint8_t *rest, size_t rest_len, uint64_t message_len)
{
    uint8_t block[128] = {0};
    const size_t blocks_len = rest_len < 56 ? 64 : 128;
    for (size_t i = 0; i < rest_len; i++)
        block[i] = rest[i];
    block[rest_len] = 0x80;
    store_be32(block + blocks_len - 8, (uint32_t)(message_len >> 29));
    store_be32(block + blocks_len - 4, (uint32_t)(message_len << 3));
    for (size_t i = 0; i < blocks_len; i += 64)
        compress(state, block + i);
}

int main(void)
{
    const uint8_t *message = tb_input();
    const size_t len = tb_input_len();
    const size_t whole = len / 64 * 64;

    state_t state = INITIAL;
    for (size_t i = 0; i < whole; i += 64)
        compress(&state, message + i);
    finish(&state, message + whole, len - whole, len);

    uint8_t digest[32];
    for (int i = 0; i < 8; i++)
        store_be32(digest + 4 * i, state.word[i]);
    tb_commit(digest, sizeof digest);
    return 0;
}

// Counter-based random numbers, the same bits as system/random_streams.py, where they are
// explained.
#pragma once

struct Words {
    unsigned int w0, w1, w2, w3;
};

__device__ __forceinline__ Words philox(Words counter, unsigned long long seed) {
    unsigned int key0 = (unsigned int)seed, key1 = (unsigned int)(seed >> 32);
#pragma unroll
    for (int round = 0; round < PHILOX_ROUNDS; ++round) {
        unsigned long long product0 = (unsigned long long)PHILOX_MULTIPLIER_0 * counter.w0;
        unsigned long long product1 = (unsigned long long)PHILOX_MULTIPLIER_1 * counter.w2;
        counter = {(unsigned int)(product1 >> 32) ^ counter.w1 ^ key0, (unsigned int)product1,
                   (unsigned int)(product0 >> 32) ^ counter.w3 ^ key1, (unsigned int)product0};
        key0 += PHILOX_KEY_STEP_0;
        key1 += PHILOX_KEY_STEP_1;
    }
    return counter;
}

// float in [0, 1): the upper 24 bits
__device__ __forceinline__ float uniform(unsigned int word) { return float(word >> 8) * 0x1p-24f; }

__device__ __forceinline__ unsigned int feistel_round(unsigned int right, unsigned int key) {
    unsigned int mixed = (right ^ key) * FEISTEL_MULTIPLIER_0;
    mixed = (mixed ^ (mixed >> 15)) * FEISTEL_MULTIPLIER_1;
    return mixed ^ (mixed >> 16);
}

// Returns the number at a place of a random permutation of 0 ... size - 1; half_bits is half the
// binary logarithm of the smallest power of 4 that is not below size.
__device__ __forceinline__ unsigned int permuted(unsigned int place, unsigned int size,
                                                 int half_bits, unsigned long long seed,
                                                 unsigned int order0, unsigned int order1) {
    Words first = philox({0u, 0u, order0, order1}, seed);
    Words second = philox({1u, 0u, order0, order1}, seed);
    const unsigned int keys[8] = {first.w0,  first.w1,  first.w2,  first.w3,
                                  second.w0, second.w1, second.w2, second.w3};
    const unsigned int mask = (1u << half_bits) - 1u;
    do {
        unsigned int left = place >> half_bits, right = place & mask;
#pragma unroll
        for (int round = 0; round < 8; ++round) {
            unsigned int next = left ^ (feistel_round(right, keys[round]) & mask);
            left = right;
            right = next;
        }
        place = (left << half_bits) | right;
    } while (place >= size);
    return place;
}

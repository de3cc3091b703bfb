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

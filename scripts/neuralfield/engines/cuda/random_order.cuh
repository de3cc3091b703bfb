// Batches as slices of an endless row of random orders. Reference implementation: nn/sampling.py
// (Batches).
#pragma once

#include "philox.cuh"

// Returns the sample in a place of a step's batch, of `count` samples; half_bits: of `permuted`.
__device__ __forceinline__ unsigned int sample_in_random_order(int slot, long long step, int batch,
                                                               int count, int half_bits,
                                                               unsigned long long seed) {
    const long long place = step * batch + slot, epoch = place / count;
    return permuted((unsigned int)(place - epoch * count), count, half_bits, seed,
                    (unsigned int)epoch, STREAM_ORDER);
}

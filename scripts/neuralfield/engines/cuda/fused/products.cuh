// Matrix products of tiles of 64 rows by 128 threads, with left operands in shared memory or
// registers, and the barriers and copies that go with them. There are two back-ends with the same
// names: wgmma.cuh for compute capability 9.0, and mma.cuh for every GPU from 8.0 on. In both, a
// thread's registers have the same elements of a product.
//
// Constants: WGMMA (which back-end).
#pragma once
#include <cuda_fp16.h>
#include "../warp_instructions.cuh"

typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

// ---- barriers ------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init(uint64_t* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(arrivals));
}

__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
                 : "memory");
}

// Waits until `threads` threads have arrived at the named barrier; `name` is 1 to 15.
template <int threads>
__device__ __forceinline__ void named_sync(int name) {
    asm volatile("bar.sync %0, %1;" ::"r"(name), "n"(threads) : "memory");
}

// Arrives at a named barrier without waiting.
template <int threads>
__device__ __forceinline__ void named_arrive(int name) {
    asm volatile("bar.arrive %0, %1;" ::"r"(name), "n"(threads) : "memory");
}

// A place in a ring of buffers, and the lowest bit of the number of times the ring was passed.
struct RingPlace {
    int stage = 0, parity = 0;
    __device__ __forceinline__ void advance(int stages) {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// c += a * b for one warp: a 16 x 16 by rows, b 16 x 8 by columns, sums in float32. Rows 8 to 15 of
// a are 0.
__device__ __forceinline__ void warp_product(float (&c)[4], uint32_t a0, uint32_t a2, uint32_t b0,
                                             uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %6, %5, %6}, "
        "{%7, %8}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a2), "r"(0), "r"(b0), "r"(b1));
}

// ---- pairs of 16-bit numbers ---------------------------------------------------------------

__device__ __forceinline__ uint32_t pack(float low, float high) {
    __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<uint32_t*>(&pair);
}

__device__ __forceinline__ float2 unpack(uint32_t pair) {
    return __half22float2(*reinterpret_cast<__half2*>(&pair));
}

// As `pack`, with the largest finite number in place of infinity; NaN stays NaN.
__device__ __forceinline__ uint32_t pack_saturated(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Counters of tiles in global memory, which wide_pass.cu increments, and which weight_gradients.cu
// reads and then resets to zero.
struct Counters {
    unsigned full, last;  // warpgroups that have stored their tiles of the full waves, or the last
    unsigned read;        // blocks of weight_gradients.cu that no longer read the counters
};

// ---- tiles in memory ------------------------------------------------------------------------

// Stores the four 8 x 8 matrices of a warp's rows and of 16 columns in a tile in global memory.
template <int columns>
__device__ __forceinline__ void send_matrices(__half* tile, int warp, int lane, int column,
                                              const uint32_t (&matrices)[4]) {
    uint32_t* first = reinterpret_cast<uint32_t*>(tile) + 2 * warp * (columns / 8) * 32 + lane;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        __stcs(first + (column / 8 + i % 2 * (columns / 8) + i / 2) * 32, matrices[i]);
}

#if WGMMA
#include "wgmma.cuh"
#else
#include "mma.cuh"
#endif

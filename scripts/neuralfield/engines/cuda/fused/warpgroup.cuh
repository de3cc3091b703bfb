// Instructions that C++ has no functions for: barriers in shared memory, copies, and matrix
// products for tiles of 64 rows, with left operands in shared memory or registers. Every GPU from
// compute capability 8.0 on has the instructions in this file and in warp_instructions.cuh; the
// others are in products.cuh of warps/ and hopper/.
//
// Constants: WARP_PRODUCTS (with mma.sync, for any GPU; else with wgmma, for capability 9.0).
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

// Arrives once for this warp, after everything that its lanes have done before.
__device__ __forceinline__ void arrive_as_warp(uint64_t* barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
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

#if WARP_PRODUCTS
#include "../warps/products.cuh"
#else
#include "../hopper/products.cuh"
#endif

// The features of a tile of product_pass.cu: sines and cosines, and Chebyshev polynomials behind
// them, or where there are none, T_0 alone.
//
// Constants: those of product_pass.cuh.
#pragma once
#include "product_pass.cuh"

// T_0 to T_3 of a point, and from there on every fourth polynomial.
struct Polynomials {
    float2 fourth[2], before[2], now[2];  // of both points of a thread, at x and y

    // The first that this thread has: of a degree from 0 to 3.
    __device__ __forceinline__ Polynomials(const float2 (&points)[2], int first) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float2 t[5] = {make_float2(1.0f, 1.0f), points[i]};
#pragma unroll
            for (int k = 2; k < 5; ++k)
                t[k] = make_float2(fmaf(2.0f * points[i].x, t[k - 1].x, -t[k - 2].x),
                                   fmaf(2.0f * points[i].y, t[k - 1].y, -t[k - 2].y));
            fourth[i] = t[4];
            now[i] = first == 0 ? t[0] : first == 1 ? t[1] : first == 2 ? t[2] : t[3];
            before[i] = first == 0 ? t[4] : first == 1 ? t[3] : first == 2 ? t[2] : t[1];
        }
    }

    // T_k+4 = 2 T_4 T_k - T_|k-4|.
    __device__ __forceinline__ void advance() {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float2 next = make_float2(fmaf(2.0f * fourth[i].x, now[i].x, -before[i].x),
                                            fmaf(2.0f * fourth[i].y, now[i].y, -before[i].y));
            before[i] = now[i];
            now[i] = next;
        }
    }
};

// Sine and cosine of so many turns. Whole ones are left out before anything is rounded coarsely.
__device__ __forceinline__ uint32_t wave_of(float turns) {
    const float whole = __fadd_rn(__fadd_rn(turns, 12582912.0f), -12582912.0f);  // up to 2 ** 22
    const float angle = 6.283185307f * (turns - whole);
    return pack(__sinf(angle), __cosf(angle));
}

// A thread's place for a copy of 16 columns of its features, while others take their room.
__device__ __forceinline__ uint4* kept_features(const ProductShared& shared, int column) {
    const size_t place = size_t(blockIdx.x) * (INPUT_WIDTH / 16) + column / 16;
    return shared.arguments.features + place * CONSUMERS + threadIdx.x;
}

// A thread's features of its two points, as left operands of products have them, and their copies.
__device__ __forceinline__ void make_features(uint32_t (&features)[INPUT_WIDTH / 4],
                                              const float2 (&points)[2],
                                              const ProductShared& shared) {
    constexpr int first_block = FOURIER_COUNT / 4;  // with polynomials
    const int first = 4 * first_block + own_column() / 2 - FOURIER_COUNT;
    Polynomials polynomials(points, first < 0 ? first + 4 : first);
#pragma unroll
    for (int block = 0; block < INPUT_WIDTH / 8; ++block) {
        const int pair = 4 * block + own_column() / 2;
        uint32_t* own = features + 2 * block;
        const bool is_wave = pair < FOURIER_COUNT;
        if (4 * block < FOURIER_COUNT) {
            const float2 turns = shared.turns[is_wave ? pair : 0];
#pragma unroll
            for (int i = 0; i < 2; ++i)
                own[i] = wave_of(fmaf(points[i].x, turns.x, points[i].y * turns.y));
        }
        if (block >= first_block) {
            const bool is_there = 2 * pair < FEATURES || 2 * pair == CONSTANT;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const uint32_t both =
                    is_there ? pack(polynomials.now[i].x, polynomials.now[i].y) : 0;
                own[i] = 4 * block < FOURIER_COUNT && is_wave ? own[i] : both;
            }
            if (!is_wave) polynomials.advance();
        }
        if (block % 2)
            __stcg(kept_features(shared, 8 * block - 8),
                   make_uint4(own[-2], own[-1], own[0], own[1]));
    }
}

__device__ __forceinline__ void fetch_features(uint32_t (&features)[INPUT_WIDTH / 4],
                                               const ProductShared& shared) {
#pragma unroll
    for (int column = 0; column < INPUT_WIDTH; column += 16) {
        const uint4 kept = __ldcg(kept_features(shared, column));
        uint32_t* own = features + column / 4;
        own[0] = kept.x;
        own[1] = kept.y;
        own[2] = kept.z;
        own[3] = kept.w;
    }
}

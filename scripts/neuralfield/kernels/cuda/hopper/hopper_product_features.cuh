// The features of a tile of hopper_product.cu: sines and cosines, and Chebyshev polynomials behind
// them, or where there are none, T_0 alone.
//
// Constants: those of hopper_product.cuh.
#pragma once
#include "hopper_product.cuh"

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

// A warpgroup's half of the features of a tile.
__device__ __forceinline__ void put_features(const Table& table, const float2 (&points)[2],
                                             const ProductShared& shared, int warpgroup) {
    // degree of this thread's polynomials: column / 2 behind the waves
    constexpr int first_block = WAVES / 8;
    int first = (8 * first_block + own_column() - WAVES) / 2;
    first += first < 0 ? 4 : 0;
    Polynomials polynomials(points, first);
#pragma unroll
    for (int column = 0; column < INPUT_WIDTH; column += 16) {
        const bool is_own = column / (INPUT_WIDTH / 2) == warpgroup;
        uint32_t pairs[4];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const int own = column + 8 * j + own_column();
            if (column + 8 * j < WAVES && is_own) {
                const float2 x = pair_at(shared.turns[0], own), y = pair_at(shared.turns[1], own);
                const float phase_low = own < FOURIER_COUNT ? 0.0f : 0.25f;
                const float phase_high = own + 1 < FOURIER_COUNT ? 0.0f : 0.25f;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const float turn = 6.283185307f;
                    float low = fmaf(points[i].x, x.x, points[i].y * y.x);
                    float high = fmaf(points[i].x, x.y, points[i].y * y.y);
                    // whole turns are left out before anything is rounded coarsely
                    low = low - rintf(low) + phase_low;
                    high = high - rintf(high) + phase_high;
                    pairs[2 * j + i] = pack(__sinf(turn * low), __sinf(turn * high));
                }
            }
            if (column + 8 * j + 8 > WAVES) {
                const bool is_polynomial = own >= WAVES;
                const bool is_there = own < FEATURES || own == CONSTANT;
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const uint32_t both =
                        is_there ? pack(polynomials.now[i].x, polynomials.now[i].y) : 0;
                    if (column + 8 * j >= WAVES)
                        pairs[2 * j + i] = both;
                    else
                        pairs[2 * j + i] = is_polynomial ? both : pairs[2 * j + i];
                }
                if (is_polynomial) polynomials.advance();
            }
        }
        if (is_own) table.put<INPUT_WIDTH>(column, pairs);
    }
}

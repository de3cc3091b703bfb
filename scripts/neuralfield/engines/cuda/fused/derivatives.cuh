#pragma once
#include "padded_network.cuh"

// Derivatives of a layer at the points of a thread, kept from the forward to the backward pass: in
// float16, or one bit each for relu. Wavelets keep z instead, because they have twice as many
// derivatives.
template <int columns>
struct Derivatives {
    static constexpr bool are_bits = ACTIVATION == RELU;
    static constexpr int words = are_bits ? (columns + 63) / 64 : columns / 4;
    static constexpr int vectors = (words + 3) / 4;
    uint32_t word[4 * vectors];

    // Keeps the derivatives of 16 columns: z and values are pairs as in TileBuffer::put.
    __device__ __forceinline__ void keep(int column, const float2 (&z)[4], const float2 (&value)[4],
                                         float inverse_frequency) {
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            if constexpr (are_bits) {
                int bit = column / 2 + 2 * pair, place = bit / 32;
                if (bit % 32 == 0) word[place] = 0;
                word[place] |= uint32_t(z[pair].x > 0.0f) << bit % 32;
                word[place] |= uint32_t(z[pair].y > 0.0f) << (bit % 32 + 1);
            } else if constexpr (ACTIVATION == GABOR) {
                word[column / 4 + pair] = pack_saturated(z[pair].x, z[pair].y);
            } else {
                word[column / 4 + pair] = pack_derivatives(
                    derivative<ACTIVATION>(z[pair].x, value[pair].x, inverse_frequency),
                    derivative<ACTIVATION>(z[pair].y, value[pair].y, inverse_frequency));
            }
        }
    }

    // Gradients of values -> gradients of z.
    __device__ __forceinline__ uint32_t times(int column, int pair, float low, float high,
                                              float inverse_frequency) const {
        if constexpr (are_bits) {
            int bit = column / 2 + 2 * pair;
            uint32_t bits = word[bit / 32] >> bit % 32;
            return pack_saturated(bits & 1 ? low : 0.0f, bits & 2 ? high : 0.0f);
        } else if constexpr (ACTIVATION == GABOR) {
            const float2 z = unpack(word[column / 4 + pair]);
            const float2 value = activations<ACTIVATION>(z.x, z.y, inverse_frequency);
            const float2 gradient =
                gradients_before<ACTIVATION>(make_float2(low, high), z, value, inverse_frequency);
            return pack_saturated(gradient.x, gradient.y);
        } else {
            float2 factor = unpack(word[column / 4 + pair]);
            return pack_saturated(low * factor.x, high * factor.y);
        }
    }

    // Stores vector number `vector`, which has four words; other calls store the other vectors.
    __device__ __forceinline__ void save(uint4* place, int vector) const {
        place[vector * CONSUMERS] = make_uint4(word[4 * vector], word[4 * vector + 1],
                                               word[4 * vector + 2], word[4 * vector + 3]);
    }

    __device__ __forceinline__ void load(const uint4* place) {
#pragma unroll
        for (int vector = 0; vector < vectors; ++vector) {
            uint4 four = place[vector * CONSUMERS];
            word[4 * vector] = four.x;
            word[4 * vector + 1] = four.y;
            word[4 * vector + 2] = four.z;
            word[4 * vector + 3] = four.w;
        }
    }
};

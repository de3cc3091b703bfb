// The layers of a tile of hopper_product.cu, forward and back, and the gradients that it adds to.
//
// Constants: those of hopper_product.cuh.
#pragma once
#include "hopper_product.cuh"

// ---- forward -------------------------------------------------------------------------------

// The factors of a unit, under way when it returns.
__device__ __forceinline__ void start_factors(float* sums, uint32_t features, uint32_t weight,
                                              int warpgroup, int unit) {
    constexpr int block_row = ALL_FACTORS / 8 * 128;
    const int first = (warpgroup * UNITS + unit) * FACTORS * (UNIT / 8) * 128;
    const uint64_t left = block_matrix(features, 128, INPUT_WIDTH / 8 * 128);
    const uint64_t right = block_matrix(weight + first, block_row, 128);
    wgmma_fence();
    Wgmma<FACTORS * UNIT>::set<0>(sums, left, right);
#pragma unroll
    for (int k = 16; k < INPUT_WIDTH; k += 16)
        Wgmma<FACTORS * UNIT>::add<0>(sums, part_of(left, k / 8 * 128),
                                      part_of(right, k / 8 * block_row));
    wgmma_commit();
}

// Sums of a unit -> its factors and products, on their tables.
__device__ __forceinline__ void put_factors(const float* sums, const Table& factors,
                                            const Table& products, const ProductShared& shared,
                                            int unit) {
    const int column = factors.number * OWN + unit * UNIT;
    float product[8];
#pragma unroll
    for (int factor = 0; factor < FACTORS; ++factor) {
        uint32_t pairs[4];
#pragma unroll
        for (int j = 0; j < 2; ++j) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float* sum = sums + 8 * factor + 4 * j + 2 * i;
                const float low = sum[0], high = sum[1];
                float* own = product + 4 * j + 2 * i;
                own[0] = factor ? own[0] * low : low;
                own[1] = factor ? own[1] * high : high;
                pairs[2 * j + i] = pack_saturated(low, high);
            }
        }
        factors.put<OWN_FACTORS>((unit * FACTORS + factor) * UNIT, pairs);
    }
    uint32_t pairs[4];
#pragma unroll
    for (int pair = 0; pair < 4; ++pair)
        pairs[pair] = pack_saturated(product[2 * pair], product[2 * pair + 1]);
    products.put<PADDED>(column, pairs);
}

// From features to products: a unit's products are under way while the one before is put down.
__device__ __forceinline__ void make_products(uint32_t features, uint32_t weight,
                                              const Table& factors, const Table& products,
                                              const ProductShared& shared) {
    float sums[2][FACTORS * UNIT / 2];
    start_factors(sums[0], features, weight, factors.number, 0);
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
        if (unit + 1 < UNITS) {
            start_factors(sums[(unit + 1) % 2], features, weight, factors.number, unit + 1);
            wgmma_wait<1>();
        } else {
            wgmma_wait<0>();
        }
        finished_sums<FACTORS * UNIT / 2>(sums[unit % 2]);
        put_factors(sums[unit % 2], factors, products, shared, unit);
    }
}

// A warpgroup's columns of the relu layer: its values on their table and as pairs, and what they
// add to the output numbers.
__device__ __forceinline__ void make_values(uint32_t (&values)[OWN / 4], float (&z)[2][CHANNELS],
                                            const Table& products, const Table& table,
                                            uint32_t weight, const ProductShared& shared) {
    constexpr int block_row = PADDED / 8 * 128;
    float sums[OWN / 2];
    const uint64_t left = block_matrix(shared_address(products.tile), 128, block_row);
    const uint64_t right = block_matrix(weight + table.number * OWN / 8 * 128, block_row, 128);
    wgmma_fence();
    Wgmma<OWN>::set<0>(sums, left, right);
#pragma unroll
    for (int k = 16; k < PADDED; k += 16)
        Wgmma<OWN>::add<0>(sums, part_of(left, k / 8 * 128), part_of(right, k / 8 * block_row));
    wgmma_commit();
    wgmma_wait<0>();
    finished_sums<OWN / 2>(sums);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) z[i][channel] = 0.0f;
#pragma unroll
    for (int block = 0; block < OWN / 8; ++block) {
        const int own = table.number * OWN + 8 * block + own_column();
        const float2 bias = pair_at(shared.second_bias, own);
        float value[2][2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            value[i][0] = larger_or_nan(sums[4 * block + 2 * i] + bias.x, 0.0f);
            value[i][1] = larger_or_nan(sums[4 * block + 2 * i + 1] + bias.y, 0.0f);
            values[2 * block + i] = pack_saturated(value[i][0], value[i][1]);
        }
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
            const float2 output = pair_at(shared.output_weight[channel], own);
#pragma unroll
            for (int i = 0; i < 2; ++i)
                z[i][channel] =
                    fmaf(value[i][0], output.x, fmaf(value[i][1], output.y, z[i][channel]));
        }
    }
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
        const uint32_t* own = values + 4 * unit;
        table.put<PADDED>(table.number * OWN + 16 * unit, {own[0], own[1], own[2], own[3]});
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
            z[i][channel] += __shfl_xor_sync(~0u, z[i][channel], 1);
            z[i][channel] += __shfl_xor_sync(~0u, z[i][channel], 2);
        }
}

// ---- loss ----------------------------------------------------------------------------------

// The sum of both warpgroups' shares; all have come to the block's barrier in between.
__device__ __forceinline__ void note_shares(const float (&z)[2][CHANNELS], const Table& table,
                                            Notes& notes) {
    if (table.lane % 4 == 0)
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int channel = 0; channel < CHANNELS; ++channel)
                notes.shares[table.number][row_of(table, 0, i)][channel] = z[i][channel];
}

__device__ __forceinline__ void add_shares(float (&z)[2][CHANNELS], const Table& table,
                                           const Notes& notes, const float* bias) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
            const int row = row_of(table, 0, i);
            z[i][channel] =
                notes.shares[0][row][channel] + notes.shares[1][row][channel] + bias[channel];
        }
}

// ---- backward ------------------------------------------------------------------------------

// sums = (transpose of 64 columns of a table) x (8 numbers of each point), between a fence and a
// commit. The numbers of 16 points are `step` bytes behind those of 16 before.
template <int columns>
__device__ __forceinline__ void start_column_sums(float* sums, const Table& table, int column,
                                                  const uint4* numbers, int step) {
    constexpr int block_row = columns / 8 * 128;
    const uint64_t left =
        block_matrix(shared_address(table.tile) + column / 8 * 128, block_row, 128);
    const uint64_t right = block_matrix(shared_address(numbers), 128, 128);
    Wgmma<8>::set<1>(sums, left, right);
#pragma unroll
    for (int k = 1; k < 4; ++k)
        Wgmma<8>::add<1>(sums, part_of(left, 2 * k * block_row), part_of(right, k * step));
}

// Gradients of the output's weights, from the values on the table; then slopes of the relu layer's
// z take their place there.
__device__ __forceinline__ void put_slopes(uint32_t (&values)[OWN / 4],
                                           const float (&z)[2][CHANNELS], const Table& table,
                                           const uint4* noted, ProductShared& shared) {
    float sums[4];
    wgmma_fence();
    start_column_sums<PADDED>(sums, table, table.number * OWN, noted, 256);
    wgmma_commit();
#pragma unroll
    for (int block = 0; block < OWN / 8; ++block) {
        const int own = table.number * OWN + 8 * block + own_column();
        float slope[2][2] = {};
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
            const float2 weight = pair_at(shared.output_weight[channel], own);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                slope[i][0] = fmaf(z[i][channel], weight.x, slope[i][0]);
                slope[i][1] = fmaf(z[i][channel], weight.y, slope[i][1]);
            }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            uint32_t& pair = values[2 * block + i];
            const __half2 value = *reinterpret_cast<__half2*>(&pair);
            pair = pack_saturated(slope[i][0], slope[i][1]) &
                   __hgt2_mask(value, __float2half2_rn(0.0f));
        }
    }
    wgmma_wait<0>();
    finished_sums<4>(sums);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int own = row_of(table, 0, i);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int channel = table.lane % 4 * 2 + e;
            if (own < OWN && channel < CHANNELS)
                shared.output_weight_sums[table.number * OWN + own][channel] += sums[2 * i + e];
        }
    }
    table.sync();  // all have done with the values
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
        const uint32_t* own = values + 4 * unit;
        table.put<PADDED>(table.number * OWN + 16 * unit, {own[0], own[1], own[2], own[3]});
    }
}

// Slopes of the relu layer's z -> slopes of a warpgroup's factors, in place of these.
__device__ __forceinline__ void put_slopes_of_factors(const Table& slopes, const Table& factors,
                                                      uint32_t weight) {
    constexpr int block_row = PADDED / 8 * 128;
    float sums[OWN / 2];
    uint32_t operand[PADDED / 4];
#pragma unroll
    for (int column = 0; column < PADDED; column += 16)
        load_operand<PADDED>(operand + column / 4, slopes, column);
    const uint64_t right =
        block_matrix(weight + slopes.number * (OWN / 8) * block_row, 128, block_row);
    wgmma_fence();
    OperandWgmma<OWN>::set<0>(sums, operand, right);
#pragma unroll
    for (int k = 16; k < PADDED; k += 16)
        OperandWgmma<OWN>::add<0>(sums, operand + k / 4, part_of(right, k / 8 * 128));
    wgmma_commit();
    wgmma_wait<0>();
    finished_sums<OWN / 2>(sums);
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
        uint32_t factor[FACTORS][4];
#pragma unroll
        for (int i = 0; i < FACTORS; ++i)
            load_operand<OWN_FACTORS>(factor[i], factors, (unit * FACTORS + i) * UNIT);
        float before[FACTORS][8], after[8];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
#pragma unroll
            for (int i = 0; i < FACTORS; ++i) {
                const float2 last = i ? unpack(factor[i - 1][pair]) : make_float2(1.0f, 1.0f);
                before[i][2 * pair] = i > 1 ? before[i - 1][2 * pair] * last.x : last.x;
                before[i][2 * pair + 1] = i > 1 ? before[i - 1][2 * pair + 1] * last.y : last.y;
            }
            after[2 * pair] = sums[8 * unit + 2 * pair];
            after[2 * pair + 1] = sums[8 * unit + 2 * pair + 1];
        }
#pragma unroll
        for (int i = FACTORS - 1; i >= 0; --i) {
            uint32_t pairs[4];
#pragma unroll
            for (int pair = 0; pair < 4; ++pair) {
                const float2 own = unpack(factor[i][pair]);
                pairs[pair] = pack_saturated(before[i][2 * pair] * after[2 * pair],
                                             before[i][2 * pair + 1] * after[2 * pair + 1]);
                after[2 * pair] *= own.x;
                after[2 * pair + 1] *= own.y;
            }
            factors.put<OWN_FACTORS>((unit * FACTORS + i) * UNIT, pairs);
        }
    }
}

// Sums of the first weight's gradient, over all tiles: 64 features, and a warpgroup's factors.
struct FirstGradient {
    float sums[INPUT_WIDTH / 64][OWN_FACTORS / 2] = {};
};

// gradient += (transpose of features) x (slopes of factors), between a fence and a commit.
__device__ __forceinline__ void start_first_gradient(FirstGradient& gradient, uint32_t features,
                                                     const Table& factors) {
    constexpr int feature_row = INPUT_WIDTH / 8 * 128, slope_row = OWN_FACTORS / 8 * 128;
    const uint64_t left = block_matrix(features, feature_row, 128);
    const uint64_t right = block_matrix(shared_address(factors.tile), slope_row, 128);
#pragma unroll
    for (int chunk = 0; chunk < INPUT_WIDTH / 64; ++chunk)
#pragma unroll
        for (int k = 0; k < 4; ++k)
            Wgmma<OWN_FACTORS>::add<1>(gradient.sums[chunk],
                                       part_of(left, chunk * 1024 + 2 * k * feature_row),
                                       part_of(right, 2 * k * slope_row));
}

// The second weight's gradient of this tile, and the slopes' sums: 64 rows at a time.
struct SecondGradient {
    float sums[blocks_of(PADDED)][OWN / 2];
    float bias[4];
};

__device__ __forceinline__ void start_second_gradient(SecondGradient& gradient,
                                                      const Table& products, const Table& slopes,
                                                      const uint4* ones) {
    constexpr int block_row = PADDED / 8 * 128;
    const uint64_t left = block_matrix(shared_address(products.tile), block_row, 128);
    const uint64_t right =
        block_matrix(shared_address(slopes.tile) + slopes.number * OWN / 8 * 128, block_row, 128);
#pragma unroll
    for (int chunk = 0; chunk < blocks_of(PADDED); ++chunk) {
        Wgmma<OWN>::set<1>(gradient.sums[chunk], part_of(left, chunk * 1024), right);
#pragma unroll
        for (int k = 1; k < 4; ++k)
            Wgmma<OWN>::add<1>(gradient.sums[chunk],
                               part_of(left, chunk * 1024 + 2 * k * block_row),
                               part_of(right, 2 * k * block_row));
    }
    start_column_sums<PADDED>(gradient.bias, slopes, slopes.number * OWN, ones, 0);
}

// A thread's place among the sums of the second weight's gradient: OWN / 2 numbers, four by four.
__device__ __forceinline__ float4* second_place(char* memory, const Table& table, int chunk) {
    constexpr int places = PADDED / 16 * 64;
    const int place = ((chunk * 4 + table.warp) * 2 + table.number) * 32 + table.lane;
    static_assert(places * OWN / 2 * 4 == SECOND_SUMS_BYTES, "a place for each sum");
    return reinterpret_cast<float4*>(memory + SECOND_SUMS) + place;
}

constexpr int SECOND_STEP = PADDED / 16 * 64;  // from one four to the next

__device__ __forceinline__ void add_second_gradient(SecondGradient& gradient, char* memory,
                                                    const Table& table, ProductShared& shared) {
#pragma unroll
    for (int chunk = 0; chunk < blocks_of(PADDED); ++chunk) {
        finished_sums<OWN / 2>(gradient.sums[chunk]);
        if (CHUNK_ROWS * chunk + 16 * table.warp >= PADDED) continue;
        float4* place = second_place(memory, table, chunk);
#pragma unroll
        for (int i = 0; i < OWN / 8; ++i) {
            const float* own = gradient.sums[chunk] + 4 * i;
            float4 sum = place[i * SECOND_STEP];
            sum.x += own[0];
            sum.y += own[1];
            sum.z += own[2];
            sum.w += own[3];
            place[i * SECOND_STEP] = sum;
        }
    }
    finished_sums<4>(gradient.bias);
    if (table.lane % 4 == 0)
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (row_of(table, 0, i) < OWN)
                shared.second_bias_sums[table.number * OWN + row_of(table, 0, i)] +=
                    gradient.bias[2 * i];
}

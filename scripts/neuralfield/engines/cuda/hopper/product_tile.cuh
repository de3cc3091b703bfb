// The layers of a tile of product_pass.cu, forward and back, by a warpgroup.
//
// Constants: those of product_pass.cuh.
#pragma once
#include "product_pass.cuh"

// ---- forward -------------------------------------------------------------------------------

// The factors of a unit, under way when it returns.
__device__ __forceinline__ void start_factors(float* sums,
                                              const uint32_t (&features)[INPUT_WIDTH / 4],
                                              uint32_t weight, int unit) {
    constexpr int block_row = ALL_FACTORS / 8 * 128;
    const uint64_t right = block_matrix(weight + unit * FACTORS * (UNIT / 8) * 128, block_row, 128);
    wgmma_fence();
    OperandWgmma<FACTORS * UNIT>::set<1>(sums, features, right);
#pragma unroll
    for (int k = 16; k < INPUT_WIDTH; k += 16)
        OperandWgmma<FACTORS * UNIT>::add<1>(sums, features + k / 4,
                                             part_of(right, k / 8 * block_row));
    wgmma_commit();
}

// Sums of a unit -> its factors and products, on their tables.
__device__ __forceinline__ void put_factors(const float* sums, const Table& factors,
                                            const Table& products, int unit) {
    float product[8];
#pragma unroll
    for (int factor = 0; factor < FACTORS; ++factor) {
        uint32_t pairs[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            const float low = sums[8 * factor + 2 * pair], high = sums[8 * factor + 2 * pair + 1];
            float* own = product + 2 * pair;
            own[0] = factor ? own[0] * low : low;
            own[1] = factor ? own[1] * high : high;
            pairs[pair] = pack_saturated(low, high);
        }
        factors.put<ALL_FACTORS>((unit * FACTORS + factor) * UNIT, pairs);
    }
    uint32_t pairs[4];
#pragma unroll
    for (int pair = 0; pair < 4; ++pair)
        pairs[pair] = pack_saturated(product[2 * pair], product[2 * pair + 1]);
    products.put<PADDED>(unit * UNIT, pairs);
}

// The relu layer: its values on their table and as pairs, and the output numbers without bias.
__device__ __forceinline__ void make_values(uint32_t (&values)[PADDED / 4], float (&z)[2][CHANNELS],
                                            const Table& products, const Table& table,
                                            uint32_t weight, const ProductShared& shared) {
    constexpr int block_row = PADDED / 8 * 128;
    float sums[PADDED / 2];
    uint32_t operand[PADDED / 4];
    __syncwarp();  // products of a warp's rows are its own
#pragma unroll
    for (int column = 0; column < PADDED; column += 16)
        load_operand<PADDED>(operand + column / 4, products, column);
    const uint64_t right = block_matrix(weight, block_row, 128);
    wgmma_fence();
    OperandWgmma<PADDED>::set<1>(sums, operand, right);
#pragma unroll
    for (int k = 16; k < PADDED; k += 16)
        OperandWgmma<PADDED>::add<1>(sums, operand + k / 4, part_of(right, k / 8 * block_row));
    wgmma_commit();
    wgmma_wait<0>();
    finished_sums<PADDED / 2>(sums);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) z[i][channel] = 0.0f;
#pragma unroll
    for (int block = 0; block < PADDED / 8; ++block) {
        const int own = 8 * block + own_column();
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
    put_operand<PADDED>(table, values);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; ++channel) {
            z[i][channel] += __shfl_xor_sync(~0u, z[i][channel], 1);
            z[i][channel] += __shfl_xor_sync(~0u, z[i][channel], 2);
            z[i][channel] += shared.output_bias[channel];
        }
}

// ---- backward ------------------------------------------------------------------------------

// sums (+)= (transpose of 64 columns of a table) x (8 numbers of each point), between a fence and a
// commit. The numbers of 16 points are `step` bytes behind those of 16 before.
template <int columns, bool adds = false>
__device__ __forceinline__ void start_column_sums(float* sums, uint32_t table, int column,
                                                  const uint4* numbers, int step) {
    constexpr int block_row = columns / 8 * 128;
    const uint64_t left = block_matrix(table + column / 8 * 128, block_row, 128);
    const uint64_t right = block_matrix(shared_address(numbers), 128, 128);
    if (adds)
        Wgmma<8>::add<1>(sums, left, right);
    else
        Wgmma<8>::set<1>(sums, left, right);
#pragma unroll
    for (int k = 1; k < 4; ++k)
        Wgmma<8>::add<1>(sums, part_of(left, 2 * k * block_row), part_of(right, k * step));
}

// From slopes of the output numbers to those of the relu layer's z, which take the values' place on
// the table and in the pairs; and the gradients of the output's weights, from these values.
__device__ __forceinline__ void put_slopes(uint32_t (&values)[PADDED / 4],
                                           float (&gradient)[blocks_of(PADDED)][4],
                                           const float (&z)[2][CHANNELS], const Table& table,
                                           const ProductShared& shared) {
    uint32_t operand[4] = {};  // two channels of each point
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int channel = 0; channel < CHANNELS; channel += 2)
            if (own_column() == channel)
                operand[i] = pack_saturated(z[i][channel],
                                            channel + 1 < CHANNELS ? z[i][channel + 1] : 0.0f);
    float sums[PADDED / 2];
    const uint32_t weight = shared_address(shared.output_weight_back);
    wgmma_fence();
    OperandWgmma<PADDED>::set<1>(sums, operand, block_matrix(weight, PADDED / 8 * 128, 128));
    wgmma_commit();
    table.show();  // the values, and the noted slopes
    wgmma_fence();
#pragma unroll
    for (int chunk = 0; chunk < blocks_of(PADDED); ++chunk)
        start_column_sums<PADDED>(gradient[chunk], shared_address(table.tile), CHUNK_ROWS * chunk,
                                  shared.slopes[table.number], 256);
    wgmma_commit();
    wgmma_wait<1>();
    finished_sums<PADDED / 2>(sums);
#pragma unroll
    for (int i = 0; i < PADDED / 4; ++i) {
        const __half2 value = *reinterpret_cast<__half2*>(&values[i]);
        values[i] = pack_saturated(sums[2 * i], sums[2 * i + 1]) &
                    __hgt2_mask(value, __float2half2_rn(0.0f));
    }
    wgmma_wait<0>();
    finished_sums<blocks_of(PADDED) * 4>(&gradient[0][0]);
    table.sync();  // all have done with the values
    put_operand<PADDED>(table, values);
}

__device__ __forceinline__ void add_output_gradient(const float (&gradient)[blocks_of(PADDED)][4],
                                                    const Table& table, ProductShared& shared) {
#pragma unroll
    for (int chunk = 0; chunk < blocks_of(PADDED); ++chunk)
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int row = row_of(table, chunk, i), channel = own_column() + e;
                if (row < PADDED && channel < CHANNELS)
                    shared.output_weight_sums[table.number][row][channel] +=
                        gradient[chunk][2 * i + e];
            }
}

// Slopes of the relu layer's z -> slopes of the factors, in place of these; `meanwhile` is done
// while their product is under way.
template <typename Work>
__device__ __forceinline__ void put_slopes_of_factors(const uint32_t (&slopes)[PADDED / 4],
                                                      const Table& factors, uint32_t weight,
                                                      const Work& meanwhile) {
    float sums[PADDED / 2];
    const uint64_t right = block_matrix(weight, 128, PADDED / 8 * 128);
    wgmma_fence();
    OperandWgmma<PADDED>::set<0>(sums, slopes, right);
#pragma unroll
    for (int k = 16; k < PADDED; k += 16)
        OperandWgmma<PADDED>::add<0>(sums, slopes + k / 4, part_of(right, k / 8 * 128));
    wgmma_commit();
    meanwhile();
    wgmma_wait<0>();
    finished_sums<PADDED / 2>(sums);
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
        uint32_t factor[FACTORS][4];
#pragma unroll
        for (int i = 0; i < FACTORS; ++i)
            load_operand<ALL_FACTORS>(factor[i], factors, (unit * FACTORS + i) * UNIT);
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
            factors.put<ALL_FACTORS>((unit * FACTORS + i) * UNIT, pairs);
        }
    }
}

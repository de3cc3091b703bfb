// Forward, loss and backward of one batch, fused, and the gradients of all weights, for a product
// of linear maps of Fourier and Chebyshev features with a relu layer behind it; twin:
// kernels/layers.py.
//
// Weights stay in shared memory, and so do a tile's features, factors, products and values. The
// sums of the first weight's gradient stay in registers over all tiles of a block, those of the
// others in shared memory, where each thread has places of its own.
//
// Slopes are those of the sum over the batch, times GRADIENT_SCALE, which keeps small ones out of
// float16's subnormal numbers.
//
// Constants: those of hopper_product.cuh.
#include "hopper_product.cuh"

static_assert(THE_REST + sizeof(ProductShared) <= SHARED_BYTES, "the host has to count more");

__device__ __forceinline__ void sync_block() { named_sync<CONSUMERS>(ALL_CONSUMERS); }

// ---- features ------------------------------------------------------------------------------

// T_1 to T_4 of a point, and from there on every fourth polynomial.
struct Polynomials {
    float2 fourth[2], before[2], now[2];  // of both points of a thread, at x and y
    int degree;                           // of `now`

    // The first that this thread has: of a degree from 1 to 4.
    __device__ __forceinline__ Polynomials(const float2 (&points)[2], int first) : degree(first) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float2 t[5] = {make_float2(1.0f, 1.0f), points[i]};
#pragma unroll
            for (int k = 2; k < 5; ++k)
                t[k] = make_float2(fmaf(2.0f * points[i].x, t[k - 1].x, -t[k - 2].x),
                                   fmaf(2.0f * points[i].y, t[k - 1].y, -t[k - 2].y));
            fourth[i] = t[4];
            now[i] = first == 1 ? t[1] : first == 2 ? t[2] : first == 3 ? t[3] : t[4];
            before[i] = first == 1 ? t[3] : first == 2 ? t[2] : first == 3 ? t[1] : t[0];
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
        degree += 4;
    }
};

constexpr int WAVES = 2 * FOURIER_COUNT;  // columns of sines, then of cosines

// A warpgroup's half of the features of a tile.
__device__ __forceinline__ void put_features(const Table& table, const float2 (&points)[2],
                                             const ProductShared& shared, int warpgroup) {
    // degree of this thread's polynomials: 1 + column / 2 behind the waves
    constexpr int first_block = WAVES / 8;
    int first = (8 * first_block + own_column() - WAVES) / 2 + 1;
    first += first < 1 ? 4 : 0;
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
                const bool is_there = own < FEATURES;
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
            const float2 bias = pair_at(shared.first_bias[factor], column + 8 * j + own_column());
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float* sum = sums + 8 * factor + 4 * j + 2 * i;
                const float low = sum[0] + bias.x, high = sum[1] + bias.y;
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
            values[2 * block + i] = pack_capped(value[i][0], value[i][1]);
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

// ---- the block -----------------------------------------------------------------------------

// Weights in float16, as blocks of 8 x 8, with zeros beyond their sizes; and all other constants.
__device__ __forceinline__ void load_weights(char* memory, ProductShared& shared) {
    const ProductArguments& arguments = shared.arguments;
    const float* parameters = arguments.parameters;
    const float* first = parameters + arguments.offsets.weight[0];
    __half* packed = reinterpret_cast<__half*>(memory + FIRST_WEIGHT);
#pragma unroll 24  // so that many loads are on their way at once
    for (int i = threadIdx.x; i < INPUT_WIDTH * ALL_FACTORS; i += CONSUMERS) {
        const int row = i / ALL_FACTORS, factor = i / PADDED % FACTORS, column = i % PADDED;
        const bool there = row < FEATURES && column < WIDTH;
        const float weight = there ? first[(row * FACTORS + factor) * WIDTH + column] : 0.0f;
        const int place = (column / OWN * UNITS + column % OWN / UNIT) * FACTORS * UNIT +
                          factor * UNIT + column % UNIT;
        packed[place_in_blocks(row, place, ALL_FACTORS)] = __float2half_rn(weight);
    }
    const float* second = parameters + arguments.offsets.weight[1];
    packed = reinterpret_cast<__half*>(memory + SECOND_WEIGHT);
#pragma unroll 12
    for (int i = threadIdx.x; i < PADDED * PADDED; i += CONSUMERS) {
        const int row = i / PADDED, column = i % PADDED;
        const bool there = row < WIDTH && column < WIDTH;
        const float weight = there ? second[row * WIDTH + column] : 0.0f;
        packed[place_in_blocks(row, column, PADDED)] = __float2half_rn(weight);
    }
    float* sums = reinterpret_cast<float*>(memory + SECOND_SUMS);
    for (int i = threadIdx.x; i < PADDED * PADDED; i += CONSUMERS) sums[i] = 0.0f;
    for (int i = threadIdx.x; i < INPUT_WIDTH; i += CONSUMERS) {
        const int wave = i < FOURIER_COUNT ? i : i - FOURIER_COUNT;
        for (int axis = 0; axis < 2; ++axis)
            shared.turns[axis][i] =
                wave < FOURIER_COUNT ? arguments.frequencies[axis * FOURIER_COUNT + wave] : 0.0f;
    }
    const Offsets& at = arguments.offsets;
    for (int i = threadIdx.x; i < ALL_FACTORS; i += CONSUMERS) {
        const int factor = i / PADDED, column = i % PADDED;
        const bool there = at.bias[0] >= 0 && column < WIDTH;
        shared.first_bias[factor][column] =
            there ? parameters[at.bias[0] + factor * WIDTH + column] : 0.0f;
        (&shared.first_bias_sums[0][0])[i] = 0.0f;
    }
    for (int i = threadIdx.x; i < PADDED; i += CONSUMERS) {
        const bool there = i < WIDTH;
        shared.second_bias[i] = there && at.bias[1] >= 0 ? parameters[at.bias[1] + i] : 0.0f;
        shared.second_bias_sums[i] = 0.0f;
        for (int channel = 0; channel < CHANNELS; ++channel) {
            shared.output_weight[channel][i] =
                there ? parameters[at.weight[2] + i * CHANNELS + channel] : 0.0f;
            shared.output_weight_sums[i][channel] = 0.0f;
        }
    }
    if (threadIdx.x < CHANNELS)
        shared.output_bias[threadIdx.x] =
            at.bias[2] >= 0 ? parameters[at.bias[2] + threadIdx.x] : 0.0f;
    const uint32_t two_ones = 0x3C003C00;
    if (threadIdx.x < 16)
        shared.ones[threadIdx.x] = make_uint4(two_ones, two_ones, two_ones, two_ones);
}

// The block's parts of all gradients.
__device__ __forceinline__ void write_parts(const FirstGradient& gradient, char* memory,
                                            const Table& table, const ProductShared& shared) {
    const ProductArguments& arguments = shared.arguments;
    const size_t block = blockIdx.x;
    float* first = arguments.first_weight + block * FEATURES * ALL_FACTORS;
#pragma unroll
    for (int chunk = 0; chunk < INPUT_WIDTH / 64; ++chunk)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = row_of(table, chunk, i);
            if (row >= FEATURES) continue;
#pragma unroll
            for (int j = 0; j < OWN_FACTORS / 8; ++j) {
                const int place = factor_of(8 * j) * PADDED + table.number * OWN +
                                  own_place(8 * j) + own_column();
                *reinterpret_cast<float2*>(first + row * ALL_FACTORS + place) = make_float2(
                    gradient.sums[chunk][4 * j + 2 * i], gradient.sums[chunk][4 * j + 2 * i + 1]);
            }
        }
    float* second = arguments.second_weight + block * PADDED * PADDED;
#pragma unroll
    for (int chunk = 0; chunk < blocks_of(PADDED); ++chunk) {
        if (CHUNK_ROWS * chunk + 16 * table.warp >= PADDED) continue;
        const float4* place = second_place(memory, table, chunk);
#pragma unroll
        for (int j = 0; j < OWN / 8; ++j) {
            const float4 sum = place[j * SECOND_STEP];
            float* own = second + row_of(table, chunk, 0) * PADDED + table.number * OWN + 8 * j +
                         own_column();
            *reinterpret_cast<float2*>(own) = make_float2(sum.x, sum.y);
            *reinterpret_cast<float2*>(own + 8 * PADDED) = make_float2(sum.z, sum.w);
        }
    }
    for (int i = threadIdx.x; i < ALL_FACTORS; i += CONSUMERS) {
        const int warpgroup = i / OWN_FACTORS, own = i % OWN_FACTORS;
        arguments.first_bias[block * ALL_FACTORS + factor_of(own) * PADDED + warpgroup * OWN +
                             own_place(own)] = shared.first_bias_sums[warpgroup][own];
    }
    for (int i = threadIdx.x; i < PADDED; i += CONSUMERS)
        arguments.second_bias[block * PADDED + i] = shared.second_bias_sums[i];
    for (int i = threadIdx.x; i < PADDED * CHANNELS; i += CONSUMERS)
        arguments.output_weight[block * PADDED * CHANNELS + i] =
            (&shared.output_weight_sums[0][0])[i];
    if (threadIdx.x < CHANNELS) {
        float sum = 0.0f;
        for (int warp = 0; warp < 4; ++warp) sum += shared.output_bias_sums[warp][threadIdx.x];
        arguments.output_bias[block * CHANNELS + threadIdx.x] = sum;
    }
    if (threadIdx.x == 0) {
        double loss = 0.0, squared_error = 0.0;
        for (int warp = 0; warp < 4; ++warp) {
            loss += shared.losses[warp][0];
            squared_error += shared.losses[warp][1];
        }
        const double count = double(PIXELS) * CHANNELS;
        arguments.loss_partials[block] = make_double2(loss / count, squared_error / count);
    }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS, 1)
    hopper_product(const ProductArguments* given) {
    extern __shared__ __align__(128) char memory[];
    ProductShared& shared = *reinterpret_cast<ProductShared*>(memory + THE_REST);
    if (threadIdx.x == 0) shared.arguments = *given;
    __syncthreads();
    load_weights(memory, shared);
    const ProductArguments& arguments = shared.arguments;
    const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
    auto table_at = [&](int place) {
        return Table{memory + place, warpgroup, int(threadIdx.x) / 32 % 4, int(threadIdx.x) % 32};
    };
    const Table factors = table_at(FACTOR_TABLES + warpgroup * FACTORS_BYTES);
    const Table products = table_at(PRODUCTS), values = table_at(RELUS);
    const uint32_t first_weight = shared_address(memory + FIRST_WEIGHT);
    const uint32_t second_weight = shared_address(memory + SECOND_WEIGHT);
    Totals totals;
    FirstGradient first_gradient;
    Points next = {int(blockIdx.x)};
    next.fetch(arguments, values);
    __syncthreads();
    put_features(table_at(FEATURE_TABLES), next.points, shared, warpgroup);
    for (int round = 0; next.index < TILES; ++round) {
        const Table features = table_at(FEATURE_TABLES + round % 2 * FEATURES_BYTES);
        const Table next_features = table_at(FEATURE_TABLES + (round + 1) % 2 * FEATURES_BYTES);
        Notes& notes = *reinterpret_cast<Notes*>(next_features.tile);
        shared_written();
        sync_block();  // features are there, and all have done with the tile before
        make_products(shared_address(features.tile), first_weight, factors, products, shared);
        shared_written();
        sync_block();
        float z[2][CHANNELS];
        uint32_t pairs[OWN / 4];
        make_values(pairs, z, products, values, second_weight, shared);
        note_shares(z, values, notes);
        shared_written();
        sync_block();
        add_shares(z, values, notes, shared.output_bias);
        {
            const ProductTile tile = {next, values, notes};
            const float2 errors = loss_of_points(z, tile);
            if (warpgroup == 0) {
                totals.loss += errors.x;
                totals.squared_error += errors.y;
                if (values.lane % 4 == 0)
#pragma unroll
                    for (int channel = 0; channel < CHANNELS; ++channel)
                        totals.output_bias[channel] += z[0][channel] + z[1][channel];
            }
        }
        next.index += gridDim.x;
        if (next.index < TILES) next.fetch(arguments, values);
        note_numbers(notes.slopes[warpgroup], values, z);
        values.show();
        put_slopes(pairs, z, values, notes.slopes[warpgroup], shared);
        shared_written();
        sync_block();
        put_slopes_of_factors(values, factors, second_weight);
        factors.show();
        SecondGradient second_gradient;
        float bias[blocks_of(OWN_FACTORS)][4];
        wgmma_fence();
        start_second_gradient(second_gradient, products, values, shared.ones);
        wgmma_commit();
        start_first_gradient(first_gradient, shared_address(features.tile), factors);
#pragma unroll
        for (int chunk = 0; chunk < blocks_of(OWN_FACTORS); ++chunk)
            start_column_sums<OWN_FACTORS>(bias[chunk], factors, CHUNK_ROWS * chunk, shared.ones,
                                           0);
        wgmma_commit();
        wgmma_wait<1>();
        add_second_gradient(second_gradient, memory, values, shared);
        if (next.index < TILES) put_features(next_features, next.points, shared, warpgroup);
        wgmma_wait<0>();
#pragma unroll
        for (int chunk = 0; chunk < blocks_of(OWN_FACTORS); ++chunk) {
            finished_sums<4>(bias[chunk]);
            if (values.lane % 4 == 0)
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    if (row_of(values, chunk, i) < OWN_FACTORS)
                        shared.first_bias_sums[warpgroup][row_of(values, chunk, i)] +=
                            bias[chunk][2 * i];
        }
    }
    wgmma_wait<0>();
    finished_sums<INPUT_WIDTH / 64 * OWN_FACTORS / 2>(&first_gradient.sums[0][0]);
    sum_lanes(totals);
    if (threadIdx.x % 128 % 32 == 0 && warpgroup == 0) {
        shared.losses[values.warp][0] = totals.loss;
        shared.losses[values.warp][1] = totals.squared_error;
        for (int channel = 0; channel < CHANNELS; ++channel)
            shared.output_bias_sums[values.warp][channel] = totals.output_bias[channel];
    }
    __syncthreads();
    write_parts(first_gradient, memory, values, shared);
}

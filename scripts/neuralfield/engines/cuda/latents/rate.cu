// The rate model: the bits of all latents, their gradients, and those of the weights.
// Reference: `LatentNetwork.distributions` and `laplace_bits`.
//
// A warp treats pieces of 16 latents of a row. The gradients of the bits for the inputs of latent n
// are stored in planes, plane p for inputs 2 p and 2 p + 1; the gradient for a latent is the sum of
// numbers of several planes, which `update_latents` adds up. Gradients for coarser grids are added up
// along the row of the piece first.
//
// Constants: RATE_WEIGHTS (of the rate model), BLOCKS, FLOOR, LEAST_SCALE, LARGEST_SCALE.

#include "grids.cuh"
#include "products.cuh"

#define TILES ((INPUTS + 8) / 8)  // of values: inputs, and a one for the bias
#define COLUMNS (INPUTS + 1)

__device__ const int offsets[NEIGHBOURS][2] = OFFSETS;

// The bits of a latent, and their derivatives.
struct Bits {
    float bits, by_latent, by_log_scale;
};

// Density proportional to 2^(-|v - mean| / 2^s); see `laplace_bits`.
__device__ __forceinline__ Bits laplace(float latent, float mean, float log_scale) {
    const float ln_2 = 0.69314718f, bits_per_nat = 1.44269504f;
    const bool is_inside = log_scale > LEAST_SCALE && log_scale < LARGEST_SCALE;
    const float s = fminf(fmaxf(log_scale, LEAST_SCALE), LARGEST_SCALE);
    const float inverse = exp2f(-s), decay = ln_2 * inverse;
    const float distance = latent - mean, size = fabsf(distance), over = size - 0.5f;
    const float near = exp2f(-fabsf(over) * inverse), far = exp2f(-(size + 0.5f) * inverse);
    const float share = (over >= 0.0f ? 0.5f * (near - far) : 1.0f - 0.5f * (near + far)) + FLOOR;
    const float by_share = -bits_per_nat / share;
    const float by_size = -0.5f * decay * (near - far);
    const float by_decay = 0.5f * ((size + 0.5f) * far - over * near);
    const float by_latent = by_share * by_size;
    return {-log2f(share), distance >= 0.0f ? by_latent : -by_latent,
            is_inside ? -by_share * by_decay * decay * ln_2 : 0.0f};
}

// outputs = relu(weights * values) + values; `positive` has ones for the positive sums.
__device__ __forceinline__ void apply_layer(const Values<TILES>& values,
                                            const Factor<TILES, TILES>& weights,
                                            Values<TILES>& outputs, Values<TILES>& positive) {
    Sums<TILES> sums;
    add_products(sums, values, weights);
    const __half2 zero = __float2half2_rn(0.0f);
#pragma unroll
    for (int j = 0; j < TILES; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const __half2 sum =
                __floats2half2_rn(sums.numbers[j][2 * h], sums.numbers[j][2 * h + 1]);
            positive.words[j][h] = __hgt2_mask(sum, zero);
            outputs.words[j][h] =
                word_of(__hadd2(__hmax2(sum, zero), halves_of(values.words[j][h])));
        }
}

// Returns the gradients for a layer's sums, from those for its outputs.
__device__ __forceinline__ Values<TILES> masked(const Sums<TILES>& sums,
                                                const Values<TILES>& positive) {
    Values<TILES> result;
#pragma unroll
    for (int j = 0; j < TILES; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h)
            result.words[j][h] = packed(sums.numbers[j][2 * h], sums.numbers[j][2 * h + 1]) &
                                 positive.words[j][h];
    return result;
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    rate(const Grid* __restrict__ all_grids, const float* __restrict__ latents,
         const float* __restrict__ weights, unsigned int* __restrict__ planes, long long plane,
         float* __restrict__ own_gradient, float* __restrict__ features,
         float* __restrict__ partials, double* __restrict__ all_bits,
         int pieces) {
    __shared__ Grid grids[GRIDS];
    __shared__ float sums_of_block[RATE_WEIGHTS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    for (int i = threadIdx.x; i < GRIDS * int(sizeof(Grid) / 8); i += THREADS)
        ((long long*)grids)[i] = ((const long long*)all_grids)[i];
    for (int i = threadIdx.x; i < RATE_WEIGHTS; i += THREADS) sums_of_block[i] = 0.0f;
    __syncthreads();

    const float *const w1 = weights, *const w2 = w1 + INPUTS * COLUMNS;
    const float* const w3 = w2 + INPUTS * COLUMNS;
    Factor<TILES, TILES> forward1, forward2, backward1, backward2;
    Factor<TILES, 1> forward3;
    Factor<1, TILES> backward3;
    load_forward(forward1, w1, INPUTS, COLUMNS, COLUMNS);
    load_forward(forward2, w2, INPUTS, COLUMNS, COLUMNS);
    load_backward(backward1, w1, INPUTS, INPUTS, COLUMNS);
    load_backward(backward2, w2, INPUTS, INPUTS, COLUMNS);
    load_backward(backward3, w3, 2, INPUTS, COLUMNS);
#pragma unroll
    for (int k = 0; k < TILES; ++k) {  // all lanes get the mean as first value, and the scale
        const int in = 8 * k + 2 * t;
        const float* const row = w3 + (g & 1) * COLUMNS;
        forward3.words[0][k] =
            packed(in < COLUMNS ? row[in] : 0.0f, in + 1 < COLUMNS ? row[in + 1] : 0.0f);
    }

    MatrixGradient<TILES, TILES> gradient1, gradient2;
    MatrixGradient<1, TILES> gradient3;
    double bits = 0.0;
    int row = -1, starts[TILES][2];  // of the current row of latents, where inputs come from
    const int per_block = (pieces + BLOCKS - 1) / BLOCKS, first = blockIdx.x * per_block;
    const int end = min(pieces, first + per_block);
    for (int piece = first + warp; piece < end; piece += WARPS) {
        int k = 0;
        while (k + 1 < GRIDS && piece >= int(grids[k + 1].first_piece)) ++k;
        const Grid& grid = grids[k];
        const int in_grid = piece - int(grid.first_piece), per_row = int(grid.pieces);
        const int y = in_grid / per_row, x = (in_grid - y * per_row) * 16;
        const int columns = int(grid.columns);
        const long long here = grid.start + (long long)y * grid.stride + x;

        if (row != piece - x / 16) {
            row = piece - x / 16;
#pragma unroll
            for (int j = 0; j < TILES; ++j)
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int input = 8 * j + 2 * t + i, up = input - NEIGHBOURS + 1;
                    const long long start = here - x;
                    if (input < NEIGHBOURS)
                        starts[j][i] = int(start + offsets[input][0] * grid.stride +
                                           offsets[input][1]);
                    else if (up <= FEATURES && k + up < GRIDS)
                        starts[j][i] = int(grids[k + up].start + (y >> up) * grids[k + up].stride);
                    else
                        starts[j][i] = -1;
                }
        }
        Values<TILES> inputs;
#pragma unroll
        for (int j = 0; j < TILES; ++j) {
            float found[2][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int input = 8 * j + 2 * t + i, shift = max(0, input - NEIGHBOURS + 1);
                const bool is_there = starts[j][i] >= 0;
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    found[h][i] = input == INPUTS ? 1.0f : 0.0f;
                    if (is_there) found[h][i] = latents[starts[j][i] + ((x + g + 8 * h) >> shift)];
                }
            }
#pragma unroll
            for (int h = 0; h < 2; ++h) inputs.words[j][h] = packed(found[h][0], found[h][1]);
        }
        Values<TILES> hidden1, hidden2, positive1, positive2;
        apply_layer(inputs, forward1, hidden1, positive1);
        apply_layer(hidden1, forward2, hidden2, positive2);
        Sums<1> out;
        add_products(out, hidden2, forward3);

        // lanes 4 g have the latent of position g, lanes 4 g + 1 that of position g + 8
        const int own = g + 8 * (t & 1);
        const bool is_second = t & 1, is_own = t < 2 && x + own < columns;
        Bits of_latent = laplace(latents[here + own], out.numbers[0][is_second ? 2 : 0],
                                 out.numbers[0][is_second ? 3 : 1]);
        if (is_own) {
            bits += of_latent.bits;
            own_gradient[here + own] = of_latent.by_latent;
        }
        const unsigned int word = is_own ? packed(-of_latent.by_latent, of_latent.by_log_scale) : 0u;
        const unsigned int next = __shfl_down_sync(~0u, word, 1);
        Values<1> of_out;
        of_out.words[0][0] = t == 0 ? word : 0u;
        of_out.words[0][1] = t == 0 ? next : 0u;

        Sums<TILES> gradient;
        add_products(gradient, of_out, backward3);
        const Values<TILES> turned_hidden1 = turned(hidden1);
        gradient3.add(turned(of_out), turned(hidden2));
        const Values<TILES> of_sums2 = masked(gradient, positive2);
        gradient2.add(turned(of_sums2), turned_hidden1);
        add_products(gradient, of_sums2, backward2);
        const Values<TILES> of_sums1 = masked(gradient, positive1);
        gradient1.add(turned(of_sums1), turned(inputs));
        add_products(gradient, of_sums1, backward1);

#pragma unroll
        for (int j = 0; j < TILES; ++j) {
            if (8 * j + 2 * t < NEIGHBOURS) {
                unsigned int* const target = planes + (4 * j + t) * plane + here;
                const float(&of)[4] = gradient.numbers[j];
                if (x + g < columns) target[g] = packed(of[0], of[1]);
                if (x + g + 8 < columns) target[g + 8] = packed(of[2], of[3]);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int input = 8 * j + 2 * t + i;
                float low = gradient.numbers[j][i], high = gradient.numbers[j][2 + i];
                if (8 * j + 7 < NEIGHBOURS || 8 * j >= INPUTS) continue;  // no feature in this tile
                // sums over 2, 4, 8 and 16 positions: all lanes take part, and features store theirs
                const int up = input - NEIGHBOURS + 1;
                if (x + g >= columns) low = 0.0f;
                if (x + g + 8 >= columns) high = 0.0f;
#pragma unroll
                for (int step = 1; step <= 3; ++step) {
                    const float low_added = __shfl_xor_sync(~0u, low, 2 << step);
                    const float high_added = __shfl_xor_sync(~0u, high, 2 << step);
                    if (step <= up) {
                        low += low_added;
                        high += high_added;
                    }
                }
                if (up == 4) low += high;
                if (up >= 1 && up <= FEATURES && k + up < GRIDS && !(g & ((1 << up) - 1))) {
                    const long long row = (long long)y * (((columns - 1) >> up) + 1);
                    float* const target = features + grid.features[up - 1] + row + (x >> up);
                    if (x + g < columns) target[g >> up] = low;
                    if (up < 4 && x + g + 8 < columns) target[(g + 8) >> up] = high;
                }
            }
        }
    }

    for (int turn = 0; turn < WARPS; ++turn) {
        if (turn == warp) {
            gradient1.add_to(sums_of_block, INPUTS, COLUMNS, COLUMNS, 1);
            gradient2.add_to(sums_of_block + INPUTS * COLUMNS, INPUTS, COLUMNS, COLUMNS, 1);
            gradient3.add_to(sums_of_block + 2 * INPUTS * COLUMNS, 2, COLUMNS, COLUMNS, 1);
        }
        __syncthreads();
    }
    store_sums(sums_of_block, RATE_WEIGHTS, partials, bits, all_bits);
}

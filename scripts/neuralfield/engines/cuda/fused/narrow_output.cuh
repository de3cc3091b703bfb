// The last layer of a narrow network and the loss, forward and backward. Four neighbouring lanes
// have the same points, and each of them has at most one of the channels: see own_channel.
//
// Both directions are products with the weights, each of which is the sum of two float16 numbers:
// exact to 22 bits or, where the weight is small, to 3e-8.
//
// Constants: those of batch.cuh.
#pragma once
#include "batch.cuh"
#include "../weight_blocks.cuh"

// Loads a thread's share of 16 columns of its warp's rows, as left operand of a product: the four
// pairs that TileBuffer::put stores.
template <int columns>
__device__ __forceinline__ void load_operand(uint32_t* operand, const TileBuffer& buffer,
                                             int column) {
    const int block_row = 2 * buffer.warp + buffer.lane / 8 % 2, block = buffer.lane / 16;
    load_matrices<false>(operand, shared_address(buffer.tile) + buffer.lane % 8 * 16 +
                                      (block_row * (columns / 8) + block) * 128 + column / 8 * 128);
}

// Stores all columns of a thread's left operand in a buffer.
template <int columns>
__device__ __forceinline__ void put_operand(const TileBuffer& buffer, const uint32_t* operand) {
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        const uint32_t* own = operand + column / 4;
        buffer.put<columns>(column, {own[0], own[1], own[2], own[3]});
    }
}

// Columns 2 c and 2 c + 1 have both parts of channel c's weights.
constexpr int OUTPUT_COLUMNS = 8;

__device__ __forceinline__ void put_output(__half* matrix, const Constants& constants) {
    for (int i = threadIdx.x; i < 4 * LAST_WIDTH; i += blockDim.x) {
        const int row = i / 4, channel = i % 4;
        const float weight =
            channel < CHANNELS ? constants.output_weight[channel][place_of_constant(row)] : 0.0f;
        const __half high = __float2half_rn(weight);
        matrix[OUTPUT_COLUMNS * row + 2 * channel] = high;
        matrix[OUTPUT_COLUMNS * row + 2 * channel + 1] =
            __float2half_rn(weight - __half2float(high));
    }
}

// Starts the product for the output numbers; that of point i will be sums[2 i] + sums[2 i + 1].
__device__ __forceinline__ void start_output(float (&sums)[4], const uint32_t* operand,
                                             uint32_t matrix) {
    const auto right = block_matrix(matrix, 128, 128);
    begin_products();
    OperandProduct<OUTPUT_COLUMNS>::set<1>(sums, operand, right);
#pragma unroll
    for (int k = 16; k < LAST_WIDTH; k += 16)
        OperandProduct<OUTPUT_COLUMNS>::add<1>(sums, operand + k / 4, part_of(right, k / 8 * 128));
    commit_products();
}

// Sets the left operand of the backward product to the gradients of the output numbers. They too
// are sums of two numbers, and the product uses the same columns of weights for both.
__device__ __forceinline__ void last_operand(uint32_t (&operand)[4],
                                             const float (&gradients)[2][1]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float gradient = gradients[i][0];
        operand[i] = pack_saturated(gradient, gradient);
        const float rest = gradient - unpack(operand[i]).x;
        operand[2 + i] = pack_saturated(rest, rest);
    }
}

// Starts the product for the gradients of the last hidden layer's values.
__device__ __forceinline__ void start_last_gradients(float* sums, const float (&gradients)[2][1],
                                                     uint32_t matrix) {
    uint32_t operand[4];
    last_operand(operand, gradients);
    begin_products();
    OperandProduct<LAST_WIDTH>::set<0>(sums, operand, block_matrix(matrix, 0, 128));
    commit_products();
}

// Stores, for each of this thread's points, the output gradient of this lane's channel in
// `stored[0]`. Without features, lanes 0, 1 and 2 of four also store 1, x and y beside it, and the
// rounding errors of these in `stored[1]`.
__device__ __forceinline__ void store_gradients(uint4 (*stored)[64], const TileBuffer& buffer,
                                                const float (&gradients)[2][1],
                                                const float2 (&points)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int row = 16 * buffer.warp + 8 * i + buffer.lane / 4, own = own_channel();
        float number = own == 0 && !has_features ? 1.0f : 0.0f;
        if (!has_features) {
            number = own == 1 ? points[i].x : number;
            number = own == 2 ? points[i].y : number;
        }
        const uint32_t pair = pack_saturated(gradients[i][0], number);
        reinterpret_cast<uint32_t*>(&stored[0][row])[own] = pair;
        if (!has_features)
            reinterpret_cast<uint32_t*>(&stored[1][row])[own] = pack(0.0f, number - unpack(pair).y);
    }
}

// ---- totals --------------------------------------------------------------------------------

// The totals of a thread's points: a loss in even lanes, a squared error in odd ones, and the sum
// of gradients of a channel's output.
struct LaneTotals {
    double error = 0.0;
    float output_bias = 0.0f;
};

// Both errors of a lane's channel -> the loss in even lanes, or the squared error in odd ones,
// summed over all channels.
__device__ __forceinline__ float sum_channels(float2 errors) {
    const bool is_odd = threadIdx.x % 2;
    float sum = is_odd ? errors.y : errors.x;
    sum += __shfl_xor_sync(~0u, is_odd ? errors.x : errors.y, 1);
    return sum + __shfl_xor_sync(~0u, sum, 2);
}

// Stores a warp's totals in shared memory. If all points of a pixel are among 8 neighbouring rows,
// only the first of them has an error, so that fewer steps of the sum are needed.
template <typename Shared>
__device__ __forceinline__ void store_totals(Shared& shared, LaneTotals totals, int warp) {
    constexpr int pixel_rows = 8 % POINTS == 0 ? POINTS : 1;
#pragma unroll
    for (int rows = 4; rows >= 1; rows /= 2) {
        if (rows >= pixel_rows) totals.error += __shfl_xor_sync(~0u, totals.error, 4 * rows);
        totals.output_bias += __shfl_xor_sync(~0u, totals.output_bias, 4 * rows);
    }
    const int lane = threadIdx.x % 32;
    if (lane < 2) shared.losses[warp][lane] = totals.error;
    if (lane < CHANNELS) shared.output_bias[warp][lane] = totals.output_bias;
}

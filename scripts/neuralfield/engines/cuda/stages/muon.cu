// The end of a step for hidden matrices under Muon: directions, which `update` has left behind, are
// orthogonalised by Newton-Schulz steps and move the weights. Reference implementation:
// nn/optimizers.py.
//
// x is a direction, or its transpose, so that it has at least as many rows as columns. A step is
// three products, each launched for all matrices at once: x' x, its polynomial p, and x p. Where
// all matrices fit a tile of fp16 numbers, one launch does everything, with the same results.
//
// Constants: MIXED (products of fp16 with float32 sums; else all in float32), STEPS.
#include "../element.cuh"
#include "step_scalars.cuh"
#include "../weight_blocks.cuh"
#if MIXED
#include "../matrix_product_half.cuh"
#else
#include "../matrix_product_float.cuh"
#endif

#define SIDE 64  // of the tiles that all sizes are padded for; what is beyond stays zero

// One hidden matrix.
struct Matrix {
    const float* direction;        // (rows, columns)
    const float* squares;          // sums of its squares, one for each part
    float* weight;                 // (rows, columns)
    __half *forward, *backward;    // copies of the weight for matrix products, or null
    element* x[2];                 // (length, width), and those of the next step
    element *square, *polynomial;  // (width, width)
    int parts, rows, columns, length, width;
    int is_transposed;  // whether rows of x are columns of the weight
    float copy_factor;
    float step_length;

    // The compiler keeps what is indexed by constants alone in registers.
    __device__ __forceinline__ element* x_of(int step) const { return step & 1 ? x[1] : x[0]; }
};

__device__ __forceinline__ float2 load_pair(const element* source) {
#if MIXED
    return __half22float2(*reinterpret_cast<const __half2*>(source));
#else
    return *reinterpret_cast<const float2*>(source);
#endif
}

__device__ __forceinline__ void store_pair(element* target, float2 pair) {
#if MIXED
    *reinterpret_cast<__half2*>(target) = __floats2half2_rn(pair.x, pair.y);
#else
    *reinterpret_cast<float2*>(target) = pair;
#endif
}

// Returns 1 / the direction's norm; every block adds up the same numbers in the same order.
__device__ __forceinline__ float inverse_norm(const Matrix& matrix) {
    __shared__ float sums[THREADS / 32];
    float sum = 0.0f;
    for (int part = int(threadIdx.x); part < matrix.parts; part += THREADS)
        sum += matrix.squares[part];
    for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int warp = 0; warp < THREADS / 32; ++warp) sum += sums[warp];
    return 1.0f / (sqrtf(sum) + 1e-20f);
}

// Returns a number of x before the first step; zero in the padding.
__device__ __forceinline__ element first_x(const Matrix& matrix, float factor, int row,
                                           int column) {
    const int own_row = matrix.is_transposed ? column : row;
    const int own_column = matrix.is_transposed ? row : column;
    const bool there = own_row < matrix.rows && own_column < matrix.columns;
    return to_element(
        there ? factor * matrix.direction[own_row * matrix.columns + own_column] : 0.0f);
}

// Moves two neighbours in a row of x by `values`.
__device__ __forceinline__ void move_pair(const Matrix& matrix, float rate, int row, int column,
                                          float2 values) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int own_row = matrix.is_transposed ? column + i : row;
        const int own_column = matrix.is_transposed ? row : column + i;
        if (own_row >= matrix.rows || own_column >= matrix.columns) continue;
        float& weight = matrix.weight[size_t(own_row) * matrix.columns + own_column];
        weight -= rate * (i ? values.y : values.x);
        if (matrix.forward)
            place_weight(matrix.copy_factor * weight, own_row, own_column, matrix.rows,
                         matrix.columns, matrix.forward, matrix.backward);
    }
}

// `update` has counted the step already.
__device__ __forceinline__ float rate_of(const Matrix& matrix, const Scalars* scalars,
                                         const long long* steps_taken) {
    return matrix.step_length * scalars[(*steps_taken - 1) & 1].learning_rate;
}

// x = direction / its norm. Grid: (any, matrices).
extern "C" __global__ __launch_bounds__(THREADS) void normalise(const Matrix* matrices) {
    const Matrix matrix = matrices[blockIdx.y];
    const float factor = inverse_norm(matrix);
    const int stride = int(gridDim.x) * THREADS;
    for (int i = int(blockIdx.x) * THREADS + int(threadIdx.x); i < matrix.length * matrix.width;
         i += stride) {
        const int row = i / matrix.width;
        matrix.x_of(0)[i] = first_x(matrix, factor, row, i - row * matrix.width);
    }
}

// Results of a tile come in groups; `take` is given them in pairs of neighbours.
template <typename Take>
struct InPairs {
    const Take& take;

    template <int COUNT>
    __device__ __forceinline__ void operator()(int row, int column,
                                               const float (&values)[COUNT]) const {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2)
            take(row, column + i, make_float2(values[i], values[i + 1]));
    }
};

// square = x' x. Grid of this and the next: (width / SIDE, width / SIDE, matrices).
extern "C" __global__ __launch_bounds__(PRODUCT_THREADS) void multiply_by_itself(
    const Matrix* matrices, int step) {
    const Matrix matrix = matrices[blockIdx.z];
    const int row0 = int(blockIdx.y) * SIDE, column0 = int(blockIdx.x) * SIDE;
    if (row0 >= matrix.width || column0 >= matrix.width) return;
    const element* x = matrix.x_of(step);
    auto take = [&](int row, int column, float2 sums) {
        store_pair(matrix.square + size_t(row0 + row) * matrix.width + column0 + column, sums);
    };
    matrix_product<SIDE, SIDE, true, false, false>(x + row0, matrix.width, x + column0,
                                                   matrix.width, matrix.length,
                                                   InPairs<decltype(take)>{take});
}

// polynomial = -4.7750 square + 2.0315 square square.
extern "C" __global__ __launch_bounds__(PRODUCT_THREADS) void make_polynomial(
    const Matrix* matrices) {
    const Matrix matrix = matrices[blockIdx.z];
    const int row0 = int(blockIdx.y) * SIDE, column0 = int(blockIdx.x) * SIDE;
    if (row0 >= matrix.width || column0 >= matrix.width) return;
    auto take = [&](int row, int column, float2 sums) {
        const size_t index = size_t(row0 + row) * matrix.width + column0 + column;
        const float2 square = load_pair(matrix.square + index);
        store_pair(matrix.polynomial + index, make_float2(-4.7750f * square.x + 2.0315f * sums.x,
                                                          -4.7750f * square.y + 2.0315f * sums.y));
    };
    matrix_product<SIDE, SIDE, false, false, false>(
        matrix.square + size_t(row0) * matrix.width, matrix.width, matrix.square + column0,
        matrix.width, matrix.width, InPairs<decltype(take)>{take});
}

// 3.4445 x + x polynomial, in pairs. Grid: (width / SIDE, length / SIDE, matrices).
template <typename Take>
__device__ __forceinline__ void next_x(const Matrix& matrix, int step, const Take& put) {
    const int row0 = int(blockIdx.y) * SIDE, column0 = int(blockIdx.x) * SIDE;
    if (row0 >= matrix.length || column0 >= matrix.width) return;
    const element* x = matrix.x_of(step) + size_t(row0) * matrix.width;
    auto take = [&](int row, int column, float2 sums) {
        const float2 before = load_pair(x + size_t(row) * matrix.width + column0 + column);
        put(row0 + row, column0 + column,
            make_float2(3.4445f * before.x + sums.x, 3.4445f * before.y + sums.y));
    };
    matrix_product<SIDE, SIDE, false, false, false>(x, matrix.width, matrix.polynomial + column0,
                                                    matrix.width, matrix.width,
                                                    InPairs<decltype(take)>{take});
}

extern "C" __global__ __launch_bounds__(PRODUCT_THREADS) void take_step(const Matrix* matrices,
                                                                        int step) {
    const Matrix matrix = matrices[blockIdx.z];
    next_x(matrix, step, [&](int row, int column, float2 values) {
        store_pair(matrix.x_of(step + 1) + size_t(row) * matrix.width + column, values);
    });
}

// The last step, whose results move the weights.
extern "C" __global__ __launch_bounds__(PRODUCT_THREADS) void move_weights(
    const Matrix* matrices, int step, const Scalars* scalars, const long long* steps_taken) {
    const Matrix matrix = matrices[blockIdx.z];
    const float rate = rate_of(matrix, scalars, steps_taken);
    next_x(matrix, step, [&](int row, int column, float2 values) {
        move_pair(matrix, rate, row, column, values);
    });
}

#if MIXED
using Square = SharedMatrix<SIDE, SIDE>;

__device__ __forceinline__ __half2* pair_of(Square& matrix, int row, int column) {
    return reinterpret_cast<__half2*>(matrix.chunk(row, column / 8) + column % 8);
}

// finish(row, column, values) takes neighbouring results of A B, or of A' B.
template <bool A_TRANSPOSED, typename Finish>
__device__ __forceinline__ void small_product(Square& a, Square& b, const Finish& finish) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int warp_row = warp % 4 * 16, warp_column = warp / 4 * 32;
    float sums[4][4] = {};
#pragma unroll
    for (int k = 0; k < SIDE; k += 16) {
        unsigned int a_part[4], b_part[4];
        load_matrices<A_TRANSPOSED>(
            a_part, A_TRANSPOSED
                        ? a.chunk(k + lane % 8 + lane / 16 * 8, warp_row / 8 + lane / 8 % 2)
                        : a.chunk(warp_row + lane % 16, k / 8 + lane / 16));
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            load_matrices<true>(b_part, b.chunk(k + lane % 16, warp_column / 8 + j + lane / 16));
            multiply_add(sums[j], a_part, {b_part[0], b_part[1]});
            multiply_add(sums[j + 1], a_part, {b_part[2], b_part[3]});
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            finish(warp_row + half * 8 + lane / 4, warp_column + j * 8 + lane % 4 * 2,
                   make_float2(sums[j][2 * half], sums[j][2 * half + 1]));
}

// All steps, for matrices of at most SIDE rows and columns. Grid: (matrices,).
extern "C" __global__ __launch_bounds__(PRODUCT_THREADS) void move_small_weights(
    const Matrix* matrices, const Scalars* scalars, const long long* steps_taken) {
    __shared__ __align__(128) Square x[2], square, polynomial;
    const Matrix matrix = matrices[blockIdx.x];
    const float factor = inverse_norm(matrix);
    for (int i = int(threadIdx.x); i < SIDE * SIDE; i += PRODUCT_THREADS) {
        const int row = i / SIDE, column = i % SIDE;
        x[0].chunk(row, column / 8)[column % 8] = first_x(matrix, factor, row, column);
    }
    const float rate = rate_of(matrix, scalars, steps_taken);
#pragma unroll 1
    for (int step = 0; step < STEPS; ++step) {
        Square &own = x[step & 1], &next = x[(step + 1) & 1];
        __syncthreads();
        small_product<true>(own, own, [&](int row, int column, float2 sums) {
            *pair_of(square, row, column) = __floats2half2_rn(sums.x, sums.y);
        });
        __syncthreads();
        small_product<false>(square, square, [&](int row, int column, float2 sums) {
            const float2 own_pair = __half22float2(*pair_of(square, row, column));
            *pair_of(polynomial, row, column) =
                __floats2half2_rn(-4.7750f * own_pair.x + 2.0315f * sums.x,
                                  -4.7750f * own_pair.y + 2.0315f * sums.y);
        });
        __syncthreads();
        small_product<false>(own, polynomial, [&](int row, int column, float2 sums) {
            const float2 before = __half22float2(*pair_of(own, row, column));
            const float2 values =
                make_float2(3.4445f * before.x + sums.x, 3.4445f * before.y + sums.y);
            if (step == STEPS - 1)
                move_pair(matrix, rate, row, column, values);
            else
                *pair_of(next, row, column) = __floats2half2_rn(values.x, values.y);
        });
    }
}
#endif

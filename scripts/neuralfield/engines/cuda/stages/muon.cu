// The end of a step for hidden matrices with Muon: the directions that `update` has written are
// orthogonalised by Newton-Schulz steps, and the weights are updated along them. Reference
// implementation: nn/optimizers.py.
//
// x is a direction, or its transpose, so that it has at least as many rows as columns. A step is
// three products, each launched for all matrices at once: x' x, its polynomial p, and x p. If every
// matrix fits into a tile of fp16 numbers, one launch does everything, with the same results.
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

#define SIDE 64  // of tiles; all sizes are padded to whole tiles, and the padding stays zero

// One hidden matrix.
struct Matrix {
    const float* direction;        // (rows, columns)
    const float* squares;          // sums of its squares, one for each part
    float* weight;                 // (rows, columns)
    __half *forward, *backward;    // copies of the weight for matrix products, or null
    element* x[2];                 // (length, width); x of this step and of the next
    element *square, *polynomial;  // (width, width)
    int parts, rows, columns, length, width;
    int is_transposed;  // whether rows of x are columns of the weight
    float copy_factor;
    float step_length;

    // With constant indices only, the compiler keeps the array in registers.
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

// The element of the direction and of the weight at a place in x; in the padding there is none.
struct Place {
    int row, column;
    bool is_there;

    __device__ __forceinline__ Place(const Matrix& matrix, int x_row, int x_column)
        : row(matrix.is_transposed ? x_column : x_row),
          column(matrix.is_transposed ? x_row : x_column),
          is_there(row < matrix.rows && column < matrix.columns) {}

    __device__ __forceinline__ float in(const float* numbers, const Matrix& matrix) const {
        return is_there ? numbers[size_t(row) * matrix.columns + column] : 0.0f;
    }
};

__device__ __forceinline__ void put_weight(const Matrix& matrix, const Place& place,
                                           float weight) {
    if (!place.is_there) return;
    matrix.weight[size_t(place.row) * matrix.columns + place.column] = weight;
    if (matrix.forward)
        place_weight(matrix.copy_factor * weight, place.row, place.column, matrix.rows,
                     matrix.columns, matrix.forward, matrix.backward);
}

// Returns the step length of this step, which `update` has already counted.
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
        const Place place(matrix, row, i - row * matrix.width);
        matrix.x_of(0)[i] = to_element(factor * place.in(matrix.direction, matrix));
    }
}

// Returns a pair of the polynomial from pairs of `square` and of square square; all kernels round
// at the same places.
__device__ __forceinline__ float2 polynomial_pair(float2 square, float2 sums) {
    return make_float2(fmaf(-4.7750f, square.x, 2.0315f * sums.x),
                       fmaf(-4.7750f, square.y, 2.0315f * sums.y));
}

// Returns a pair of the next x from pairs of x and of x polynomial.
__device__ __forceinline__ float2 next_pair(float2 before, float2 sums) {
    return make_float2(3.4445f * before.x + sums.x, 3.4445f * before.y + sums.y);
}

// Passes the results of a tile, which come in groups, to `take` as pairs of neighbours.
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
        store_pair(matrix.polynomial + index,
                   polynomial_pair(load_pair(matrix.square + index), sums));
    };
    matrix_product<SIDE, SIDE, false, false, false>(
        matrix.square + size_t(row0) * matrix.width, matrix.width, matrix.square + column0,
        matrix.width, matrix.width, InPairs<decltype(take)>{take});
}

// Passes 3.4445 x + x polynomial to `put`, in pairs. Grid: (width / SIDE, length / SIDE, matrices).
template <typename Take>
__device__ __forceinline__ void next_x(const Matrix& matrix, int step, const Take& put) {
    const int row0 = int(blockIdx.y) * SIDE, column0 = int(blockIdx.x) * SIDE;
    if (row0 >= matrix.length || column0 >= matrix.width) return;
    const element* x = matrix.x_of(step) + size_t(row0) * matrix.width;
    auto take = [&](int row, int column, float2 sums) {
        const float2 before = load_pair(x + size_t(row) * matrix.width + column0 + column);
        put(row0 + row, column0 + column, next_pair(before, sums));
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

// The last step, whose results update the weights.
extern "C" __global__ __launch_bounds__(PRODUCT_THREADS) void move_weights(
    const Matrix* matrices, int step, const Scalars* scalars, const long long* steps_taken) {
    const Matrix matrix = matrices[blockIdx.z];
    const float rate = rate_of(matrix, scalars, steps_taken);
    next_x(matrix, step, [&](int row, int column, float2 values) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const Place place(matrix, row, column + i);
            const float weight = place.in(matrix.weight, matrix);
            put_weight(matrix, place, weight - rate * (i ? values.y : values.x));
        }
    });
}

#if MIXED
using Square = SharedMatrix<SIDE, SIDE>;

__device__ __forceinline__ __half2* pair_of(Square& matrix, int row, int column) {
    return reinterpret_cast<__half2*>(matrix.chunk(row, column / 8) + column % 8);
}

// Calls work(part, row, column) for the thread's eight pairs of neighbours in a result.
template <typename Work>
__device__ __forceinline__ void for_own_pairs(const Work& work) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
#pragma unroll
    for (int part = 0; part < 8; ++part)
        work(part, warp % 4 * 16 + part / 4 * 8 + lane / 4,
             warp / 4 * 32 + part % 4 * 8 + lane % 4 * 2);
}

// Computes A B, or A' B; finish(part, row, column, values) receives pairs of results.
template <bool A_TRANSPOSED, typename Finish>
__device__ __forceinline__ void small_product(Square& a, Square& b, const Finish& finish) {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    const int warp_row = warp % 4 * 16, warp_column = warp / 4 * 32;
    float sums[4][4] = {};
#pragma unroll
    for (int k = 0; k < SIDE; k += 16) {
        unsigned int a_part[4], b_part[4];
        const __half* a_line =
            A_TRANSPOSED ? a.chunk(k + lane % 8 + lane / 16 * 8, warp_row / 8 + lane / 8 % 2)
                         : a.chunk(warp_row + lane % 16, k / 8 + lane / 16);
        load_matrices<A_TRANSPOSED>(a_part, shared_address(a_line));
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            const __half* b_line = b.chunk(k + lane % 16, warp_column / 8 + j + lane / 16);
            load_matrices<true>(b_part, shared_address(b_line));
            add_product(sums[j], a_part, b_part[0], b_part[1]);
            add_product(sums[j + 1], a_part, b_part[2], b_part[3]);
        }
    }
    for_own_pairs([&](int part, int row, int column) {
        const float* pair = &sums[part % 4][part / 4 * 2];
        finish(part, row, column, make_float2(pair[0], pair[1]));
    });
}

// All steps, for matrices of at most SIDE rows and columns. Grid: (matrices,).
extern "C" __global__ __launch_bounds__(PRODUCT_THREADS) void move_small_weights(
    const Matrix* matrices, const Scalars* scalars, const long long* steps_taken) {
    __shared__ __align__(128) Square x[2], square, polynomial;
    const Matrix matrix = matrices[blockIdx.x];
    float directions[8][2], weights[8][2];  // all loads are in flight before the first wait
    for_own_pairs([&](int part, int row, int column) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const Place place(matrix, row, column + i);
            directions[part][i] = place.in(matrix.direction, matrix);
            weights[part][i] = place.in(matrix.weight, matrix);
        }
    });
    const float rate = rate_of(matrix, scalars, steps_taken), factor = inverse_norm(matrix);
    for_own_pairs([&](int part, int row, int column) {
        *pair_of(x[0], row, column) =
            saturated(factor * directions[part][0], factor * directions[part][1]);
    });
#pragma unroll 1
    for (int step = 0; step < STEPS; ++step) {
        Square &own = x[step & 1], &next = x[(step + 1) & 1];
        __syncthreads();
        small_product<true>(own, own, [&](int, int row, int column, float2 sums) {
            *pair_of(square, row, column) = __floats2half2_rn(sums.x, sums.y);
        });
        __syncthreads();
        small_product<false>(square, square, [&](int, int row, int column, float2 sums) {
            const __half2 own_pair = *pair_of(square, row, column);
            const float2 pair = polynomial_pair(__half22float2(own_pair), sums);
            *pair_of(polynomial, row, column) = __floats2half2_rn(pair.x, pair.y);
        });
        __syncthreads();
        small_product<false>(own, polynomial, [&](int part, int row, int column, float2 sums) {
            const float2 before = __half22float2(*pair_of(own, row, column));
            const float2 values = next_pair(before, sums);
            if (step < STEPS - 1) {
                *pair_of(next, row, column) = __floats2half2_rn(values.x, values.y);
            } else {
                put_weight(matrix, Place(matrix, row, column), weights[part][0] - rate * values.x);
                put_weight(matrix, Place(matrix, row, column + 1),
                           weights[part][1] - rate * values.y);
            }
        });
    }
}
#endif

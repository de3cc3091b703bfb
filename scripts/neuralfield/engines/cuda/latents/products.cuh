// Products of small matrices that stay in the registers of a warp, for 16 positions at a time.
//
// A lane holds two neighbouring values of a matrix in a word, rounded to fp16. With g = lane / 4 and
// t = lane % 4, the tensor cores need them as the following structs have them, and sums of a product,
// rounded, have the layout of the left factor of the next product.
#pragma once

#include <cuda_fp16.h>

#include "../warp_instructions.cuh"

#define THREADS 128
#define WARPS (THREADS / 32)

// Word [j][h] has values 8 j + 2 t and 8 j + 2 t + 1 of position g + 8 h.
template <int TILES>
struct Values {
    unsigned int words[TILES][2];
};

// Number [j][2 h + i] is value 8 j + 2 t + i of position g + 8 h.
template <int TILES>
struct Sums {
    float numbers[TILES][4] = {};
};

// Word [n][k] has rows 8 k + 2 t and 8 k + 2 t + 1 of column 8 n + g of a right factor.
template <int INTO, int OUT>
struct Factor {
    unsigned int words[OUT][INTO];
};

__device__ __forceinline__ unsigned int word_of(__half2 halves) {
    return *reinterpret_cast<const unsigned int*>(&halves);
}

__device__ __forceinline__ __half2 halves_of(unsigned int word) {
    return *reinterpret_cast<const __half2*>(&word);
}

__device__ __forceinline__ unsigned int packed(float low, float high) {
    return word_of(__floats2half2_rn(low, high));
}

// Loads numbers of a matrix as a right factor: that of row k and column n is at k * row_stride +
// n * column_stride, and numbers beyond `rows` and `columns` are 0.
template <int INTO, int OUT>
__device__ __forceinline__ void load_factor(Factor<INTO, OUT>& factor, const float* matrix,
                                            int rows, int columns, int row_stride,
                                            int column_stride) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < OUT; ++n)
#pragma unroll
        for (int k = 0; k < INTO; ++k) {
            const int row = 8 * k + 2 * t, column = 8 * n + g;
            const float* const at = matrix + row * row_stride + column * column_stride;
            factor.words[n][k] =
                packed(column < columns && row < rows ? at[0] : 0.0f,
                       column < columns && row + 1 < rows ? at[row_stride] : 0.0f);
        }
}

// Loads a layer's matrix, `outputs` rows of `inputs` weights each, for products with its inputs.
template <int INTO, int OUT>
__device__ __forceinline__ void load_forward(Factor<INTO, OUT>& factor, const float* matrix,
                                             int outputs, int inputs, int stride) {
    load_factor(factor, matrix, inputs, outputs, 1, stride);
}

// Loads the same matrix for products with gradients for the layer's outputs.
template <int INTO, int OUT>
__device__ __forceinline__ void load_backward(Factor<INTO, OUT>& factor, const float* matrix,
                                              int outputs, int inputs, int stride) {
    load_factor(factor, matrix, outputs, inputs, stride, 1);
}

__device__ __forceinline__ void add_short_product(float* sums, unsigned int a0, unsigned int a1,
                                                  unsigned int b) {
    asm(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(b));
}

// sums += values * factor
template <int INTO, int OUT>
__device__ __forceinline__ void add_products(Sums<OUT>& sums, const Values<INTO>& values,
                                             const Factor<INTO, OUT>& factor) {
#pragma unroll
    for (int n = 0; n < OUT; ++n) {
        const unsigned int* const words = factor.words[n];
#pragma unroll
        for (int k = 0; k + 1 < INTO; k += 2) {
            const unsigned int a[4] = {values.words[k][0], values.words[k][1],
                                       values.words[k + 1][0], values.words[k + 1][1]};
            add_product(sums.numbers[n], a, words[k], words[k + 1]);
        }
        if (INTO % 2)
            add_short_product(sums.numbers[n], values.words[INTO - 1][0],
                              values.words[INTO - 1][1], words[INTO - 1]);
    }
}

// Exchanges positions and values: word [j][h] of the result has value 8 j + g of positions
// 8 h + 2 t and 8 h + 2 t + 1.
template <int TILES>
__device__ __forceinline__ Values<TILES> turned(const Values<TILES>& values) {
    Values<TILES> result;
#pragma unroll
    for (int j = 0; j < TILES; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h)
            asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                : "=r"(result.words[j][h])
                : "r"(values.words[j][h]));
    return result;
}

// The gradient of a matrix: the sum over positions of the products of gradients for its outputs with
// its inputs. Number [m][n][2 h + i] is that of output 16 m + g + 8 h and input 8 n + 2 t + i.
template <int OUT, int INTO>
struct MatrixGradient {
    static constexpr int PAIRS = (OUT + 1) / 2;
    float numbers[PAIRS][INTO][4] = {};

    // Adds the products of 16 positions; both arguments are `turned`.
    __device__ __forceinline__ void add(const Values<OUT>& gradients, const Values<INTO>& inputs) {
#pragma unroll
        for (int m = 0; m < PAIRS; ++m) {
            const int next = 2 * m + 1 < OUT ? 2 * m + 1 : 2 * m;
            const bool is_there = 2 * m + 1 < OUT;
            const unsigned int a[4] = {gradients.words[2 * m][0],
                                       is_there ? gradients.words[next][0] : 0u,
                                       gradients.words[2 * m][1],
                                       is_there ? gradients.words[next][1] : 0u};
#pragma unroll
            for (int n = 0; n < INTO; ++n)
                add_product(numbers[m][n], a, inputs.words[n][0], inputs.words[n][1]);
        }
    }

    // Adds the numbers to those of a matrix: output o and input i are at o * out_stride + i * in_stride.
    __device__ __forceinline__ void add_to(float* matrix, int outputs, int inputs, int out_stride,
                                           int in_stride) const {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
        for (int m = 0; m < PAIRS; ++m)
#pragma unroll
            for (int n = 0; n < INTO; ++n)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int out = 16 * m + g + 8 * (i / 2), in = 8 * n + 2 * t + i % 2;
                    if (out < outputs && in < inputs)
                        matrix[out * out_stride + in * in_stride] += numbers[m][n][i];
                }
    }
};

// Stores the sums of a block for weights, which are in shared memory, and the sum of a number that
// each of its threads has.
__device__ __forceinline__ void store_sums(const float* sums, int weights, float* partials,
                                           double own, double* totals) {
    __shared__ double of_warps[WARPS];
    for (int distance = 16; distance > 0; distance /= 2)
        own += __shfl_xor_sync(~0u, own, distance);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = own;
    __syncthreads();
    for (int i = threadIdx.x; i < weights; i += THREADS)
        partials[(long long)blockIdx.x * weights + i] = sums[i];
    if (threadIdx.x == 0) {
        double sum = 0.0;
        for (int i = 0; i < WARPS; ++i) sum += of_warps[i];
        totals[blockIdx.x] = sum;
    }
}

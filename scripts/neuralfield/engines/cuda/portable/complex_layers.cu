// Converts the parameters of a network of complex numbers to those of a real network of twice the
// width, and gradients back. Reference implementation: engines/complex_layers.py.
#include "../dependent_launch.cuh"
#include "../weight_blocks.cuh"

#define WARPS 8
#define THREADS (32 * WARPS)

// The work of a block: the numbers of a weight or a bias from `first` on.
struct Work {
    float *real, *imaginary;     // of the parameters, or of their gradients; null: there is none
    float* tensor;               // of the real network, or a part of its gradient
    __half *forward, *backward;  // copies of the tensor for matrix products, or null
    int first, size, columns;    // complex numbers
    int row_step, column_step;   // rows and columns of the tensor that a number takes: 1 or 2
    int row_stride;              // of the tensor
    int parts, part_stride;
    float copy_factor;

    // Returns the index of a number's first place in the tensor.
    __device__ __forceinline__ int place_of(int number) const {
        const int row = number / columns;
        return row * row_step * row_stride + (number - row * columns) * column_step;
    }
};

__device__ __forceinline__ void put(const Work& work, int place, float value) {
    work.tensor[place] = value;
    if (!work.forward) return;
    const int row = place / work.row_stride, column = place - row * work.row_stride;
    const int rows = work.size / work.columns * work.row_step;
    place_weight(work.copy_factor * value, row, column, rows, work.row_stride, work.forward,
                 work.backward);
}

// Each thread converts one complex number.
extern "C" __global__ void __launch_bounds__(THREADS) make_real_parameters(const Work* works) {
    const Work work = works[blockIdx.x];
    wait_for_earlier_kernels();
    const int own = work.first + threadIdx.x;
    if (own >= work.size) return;
    const int place = work.place_of(own);
    const bool has_row = work.row_step == 2, has_column = work.column_step == 2;
    const float real = work.real[own], imaginary = work.imaginary ? work.imaginary[own] : 0.0f;
    put(work, place, real);
    if (has_column) put(work, place + 1, imaginary);
    if (has_row) put(work, place + work.row_stride, -imaginary);
    if (has_row && has_column) put(work, place + work.row_stride + 1, real);
}

// Each lane has one complex number, and each of 8 warps sums every eighth part of its gradient.
extern "C" __global__ void __launch_bounds__(THREADS) make_complex_gradients(const Work* works) {
    __shared__ float2 sums[WARPS][32];
    const Work work = works[blockIdx.x];
    wait_for_earlier_kernels();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const bool has_row = work.row_step == 2, has_column = work.column_step == 2;
    const int own = min(work.first + lane, work.size - 1);
    const float* const first = work.tensor + work.place_of(own);
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 4
    for (int part = warp; part < work.parts; part += WARPS) {
        const float* const at = first + (long long)part * work.part_stride;
        sum.x += at[0];
        if (has_column) sum.y += at[1];
        if (has_row) sum.y -= at[work.row_stride];
        if (has_row && has_column) sum.x += at[work.row_stride + 1];
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || work.first + lane >= work.size) return;
    for (int other = 1; other < WARPS; ++other) {
        sum.x += sums[other][lane].x;
        sum.y += sums[other][lane].y;
    }
    work.real[own] = sum.x;
    if (work.imaginary) work.imaginary[own] = sum.y;
}

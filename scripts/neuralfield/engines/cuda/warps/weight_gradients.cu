// The counterpart of hopper/weight_gradients.cu with products of warps: gradients of weights and
// biases, as sums over all points of (values of the layer before) x (gradients), which wide_pass.cu
// has stored in global memory.
//
// A block works on one job: up to 128 rows of one layer's matrix, over some of the tiles. It begins
// with the tiles that were written last, which the L2 cache still has, and goes on to older ones.
// The rows and columns are distributed over its 8 warps. Partial sums of the jobs are added up in a
// fixed order by update.cu.
//
// Constants: WEIGHT_STAGES, and those of weight_job.cuh.
#include "../dependent_launch.cuh"
#include "../fused/weight_job.cuh"
#include "weight_sums.cuh"

constexpr int THREADS = 256;

template <int rows, int columns>
__device__ __forceinline__ void bring(const Job& job, int number, char* buffer) {
    if (number < job.full.count + job.last.count) {
        const int tile = number < job.last.count
                             ? job.last.newest - number * job.last.step
                             : job.full.newest - (number - job.last.count) * job.full.step;
        constexpr int row_bytes = rows / 8 * 128, gradient_bytes = TILE_POINTS * columns * 2;
        char* stage = buffer + number % WEIGHT_STAGES * STAGE_BYTES;
        start_copy<gradient_bytes, THREADS>(stage, job.gradients + size_t(tile) * gradient_bytes);
        const char* values =
            job.values + size_t(tile) * TILE_POINTS * job.value_columns * 2 + job.first_column * 16;
        const uint32_t target = shared_address(stage + gradient_bytes);
#pragma unroll
        for (int first = 0; first < 8 * row_bytes; first += THREADS * 16) {
            const int i = first + threadIdx.x * 16;
            if (8 * row_bytes % (THREADS * 16) == 0 || i < 8 * row_bytes)
                copy_16_bytes(target + i,
                              values + i / row_bytes * job.value_columns * 16 + i % row_bytes);
        }
    }
    end_copies();
}

// Sums of gradients over points: the gradient of a bias is that of a weight whose input is one. The
// warps that have the same columns of the weights' sums share the biases of these columns out, 16
// at a time: their gradients are the left operand, and ones are the right one.
template <typename Weights>
struct BiasSums {
    static constexpr int groups = (Weights::own_columns + 1) / 2;  // of 16 columns
    static constexpr int own_groups = (groups + Weights::down - 1) / Weights::down;
    float sums[own_groups][2] = {}, of_tile[own_groups][4] = {};
    const int first = Weights::warp() / Weights::across;  // of the groups of this warp

    __device__ __forceinline__ bool is_own(int group) const {
        return group % Weights::down == first;
    }

    __device__ __forceinline__ void add(int group, const uint32_t (&gradients)[4]) {
        const uint32_t ones = 0x3C003C00;
        const uint32_t left[4] = {gradients[0], gradients[2], gradients[1], gradients[3]};
        if (is_own(group)) add_product(of_tile[group / Weights::down], left, ones, ones);
    }

    __device__ __forceinline__ void end_tile() {
#pragma unroll
        for (int i = 0; i < own_groups; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) sums[i][half] += of_tile[i][2 * half];
            set_to_zero<8>(of_tile[i]);
        }
    }

    __device__ __forceinline__ void write(float* partial) const {
        const int lane = threadIdx.x % 32, column = Weights::first_column() + lane / 4;
#pragma unroll
        for (int block = 0; block < Weights::own_columns; ++block)
            if (is_own(block / 2) && Weights::has_columns(block) && lane % 4 == 0)
                partial[column + 8 * block] = sums[block / 2 / Weights::down][block % 2];
    }
};

template <typename Shape>
__device__ __forceinline__ void add_up(Shape, const Job& job, char* buffer) {
    constexpr int rows = Shape::rows, columns = Shape::columns;
    WeightSums<rows, columns> weights;
    BiasSums<WeightSums<rows, columns>> biases;
    const bool has_bias = job.bias_partial;
    const int count = job.full.count + job.last.count;
    for (int i = 0; i < WEIGHT_STAGES - 1; ++i) bring<rows, columns>(job, i, buffer);
    for (int i = 0; i < count; ++i) {
        wait_for_copies<WEIGHT_STAGES - 2>();
        __syncthreads();  // the tile is loaded, and all have read the one before it
        bring<rows, columns>(job, i + WEIGHT_STAGES - 1, buffer);
        const char* gradients = buffer + i % WEIGHT_STAGES * STAGE_BYTES;
        const char* values = gradients + TILE_POINTS * columns * 2;
        weights.add(values, gradients, [&](int group, const uint32_t (&right)[4]) {
            if (has_bias) biases.add(group, right);
        });
        biases.end_tile();
    }
    wait_for_copies<0>();
    weights.write(job.weight_partial, 0);
    if (has_bias) biases.write(job.bias_partial);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) weight_gradients(const Job* jobs) {
    extern __shared__ __align__(128) char memory[];
    const Job job = jobs[blockIdx.x];
    wait_for_earlier_kernels();
    for_shape(job, [&](auto shape) { add_up(shape, job, memory); });
}

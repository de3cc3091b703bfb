// The sums of weight_gradients.cu by warps: the job's rows and columns are distributed over the 8
// warps of a block, and stay in their registers.
#pragma once

constexpr int THREADS = 256;

// Chooses how many of 8 warps are side by side on `down` x `across` blocks.
__host__ __device__ constexpr int warps_across(int down, int across) {
    int best = 1, best_cost = 1 << 30;
    for (int warps = 1; warps <= 8; warps *= 2) {
        int own_down = (down + 8 / warps - 1) / (8 / warps),
            own_across = (across + warps - 1) / warps;
        int cost = 64 * own_down * own_across + own_down + own_across;
        if (cost < best_cost) best = warps, best_cost = cost;
    }
    return best;
}

// A warp has own_rows x own_columns blocks of 16 rows and 8 columns.
template <int rows, int columns>
struct WeightSums {
    static constexpr int across = warps_across(rows / 16, columns / 8), down = 8 / across;
    static constexpr int own_rows = (rows / 16 + down - 1) / down;
    static constexpr int own_columns = (columns / 8 + across - 1) / across;
    float sums[own_rows][own_columns][4] = {};

    static __device__ __forceinline__ int warp() { return __shfl_sync(~0u, threadIdx.x / 32, 0); }
    static __device__ __forceinline__ int first_row() { return warp() / across * own_rows * 16; }
    static __device__ __forceinline__ int first_column() {
        return warp() % across * own_columns * 8;
    }
    static __device__ __forceinline__ bool has_rows(int j) {
        return rows % (16 * down * own_rows) == 0 || first_row() + 16 * j < rows;
    }
    static __device__ __forceinline__ bool has_columns(int block) {
        return columns % (8 * across * own_columns) == 0 || first_column() + 8 * block < columns;
    }

    // sums += (transpose of a tile's values) x gradients, both in buffers of 64 points. Calls
    // `each_right` with the gradients of 16 points and 16 columns as they are loaded.
    template <typename EachRight>
    __device__ __forceinline__ void add(const char* values, const char* gradients,
                                        const EachRight& each_right) {
        constexpr int value_row = rows / 8 * 128, gradient_row = columns / 8 * 128;
        const uint32_t left_address = shared_address(values) + first_row() * 16;
        const uint32_t right_address = shared_address(gradients) + first_column() * 16;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            uint32_t left[own_rows][4];
#pragma unroll
            for (int j = 0; j < own_rows; ++j)
                if (has_rows(j))
                    load_left<1>(left[j],
                                 block_matrix(left_address + 2 * k * value_row + 2 * j * 128,
                                              value_row, 128));
#pragma unroll
            for (int block = 0; block < own_columns; block += 2) {
                if (!has_columns(block)) continue;
                const bool has_next = block + 1 < own_columns && has_columns(block + 1);
                uint32_t right[4];
                load_right<1>(right,
                              block_matrix(right_address + 2 * k * gradient_row + block * 128,
                                           gradient_row, has_next ? 128 : 0));
                each_right(block / 2, right);
#pragma unroll
                for (int j = 0; j < own_rows; ++j) {
                    if (!has_rows(j)) continue;
                    add_product(sums[j][block], left[j], right[0], right[1]);
                    if (has_next) add_product(sums[j][block + 1], left[j], right[2], right[3]);
                }
            }
        }
    }

    __device__ __forceinline__ void write(float* partial) const {
        const int lane = threadIdx.x % 32;
        partial += lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < own_rows; ++j)
#pragma unroll
            for (int block = 0; block < own_columns; ++block)
                if (has_rows(j) && has_columns(block))
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        *reinterpret_cast<float2*>(
                            partial + (first_row() + 16 * j + 8 * i + lane / 4) * columns +
                            first_column() + 8 * block) =
                            make_float2(sums[j][block][2 * i], sums[j][block][2 * i + 1]);
    }
};

template <int rows, int columns>
__device__ __forceinline__ void bring(const Job& job, int number, char* buffer) {
    if (number < job.count()) {
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
    for (int i = 0; i < WEIGHT_STAGES - 1; ++i) bring<rows, columns>(job, i, buffer);
    for (int i = 0; i < job.count(); ++i) {
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
    weights.write(job.weight_partial);
    if (has_bias) biases.write(job.bias_partial);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) weight_gradients(const Job* jobs, Counters*) {
    extern __shared__ __align__(128) char memory[];
    const Job job = jobs[blockIdx.x];
    wait_for_earlier_kernels();
    for_shape(job, [&](auto shape) { add_up(shape, job, memory); });
}

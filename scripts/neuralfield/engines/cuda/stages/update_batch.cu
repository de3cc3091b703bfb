// The update of several networks of one shape in one launch; the second coordinate of a block is
// the network's number plus 1.
//
// The passes store few sums of parts: one for each warp that a block of update.cu has. Here, one
// warp therefore does all the work of a block of update.cu, and adds up the sums in the same order.
// Loads of data that no pass changes are in flight before the wait.
//
// The first blocks, which belong to no network, prepare the scalars of the next steps. This takes
// long, but it starts on multiprocessors that the pass leaves free.
//
// Constants: those of update.cu, which are the same for all networks.
#include "update.cu"
#include "../warp_instructions.cuh"

// The arguments of `update` for one network of the batch.
struct Network {
    const Work* works;
    float *parameters, *moments1, *moments2;
    const double* loss_partials;
    double* totals;
    Scalars* scalars;
    const Schedule* schedule;
    long long* step_taken;
    unsigned int* blocks_done;
    const float *gradients, *clip_factor;
    float* direction_squares;
};

// Returns whether all other blocks of the network have already read the step. One thread of a block
// calls this, after all threads of the block have read the step. If the result is true, this thread
// increments the step, but not before the wait, because sampling reads the step as well.
__device__ __forceinline__ bool is_last_reader(const Network& network) {
    __threadfence();
    const unsigned int before = atomicAdd(network.blocks_done, 1u);
    __threadfence();
    return before == gridDim.x;  // a network's blocks, and one of scalars
}

__device__ __forceinline__ void count_step(const Network& network, long long step) {
    *network.step_taken = step + 1;
    *network.blocks_done = 0;
}

// Prepares the scalars of the networks' next steps, with one thread for each network.
__device__ __forceinline__ void prepare_scalars(const Network* networks) {
    const int count = gridDim.y - 1;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS) {
        const Network& network = networks[i];
        const long long step = __ldcg(network.step_taken);
        const bool is_last = is_last_reader(network);
        network.scalars[(step + 1) & 1] = scalars_of(step + 1, *network.schedule);
        wait_for_earlier_kernels();
        if (is_last) count_step(network, step);
    }
}

// Returns the gradient of an element, or of four: the sum of up to WARPS parts. The loads of all
// parts are in flight before the first part is added.
template <typename Number>
__device__ __forceinline__ Number sum_of_few_parts(const float* first, int parts, int stride) {
    Number loaded[WARPS] = {};
#pragma unroll
    for (int part = 0; part < WARPS; ++part, first += stride)
        if (part < parts) loaded[part] = __ldcg((const Number*)first);
    Number sum = {};
#pragma unroll
    for (int part = 0; part < WARPS; ++part)
        if (part < parts) add_to(sum, loaded[part]);
    return sum;
}

__device__ __forceinline__ void wait_for_all_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Four neighbouring elements of a thread. Each thread keeps its own in shared memory until the
// parts are added up, because registers are needed for the parts.
struct FourElements {
    float4 (*kept)[THREADS];  // parameters, both moments, gradients
    int at;                   // in the parameters
    const float* partials;
    int parts, part_stride;
    float scale, copy_factor;
    int copy;  // index in the weight's copy for products; -1: there is no copy

    __device__ __forceinline__ FourElements(const Work& work, int own, float4 (*kept)[THREADS])
        : kept(kept),
          at(work.parameter_offset + own),
          parts(work.parts),
          part_stride(work.part_stride),
          scale(work.scale),
          copy_factor(work.copy_factor) {
        const int row = own / work.columns, column = own - row * work.columns;
        partials = work.partials + (long long)row * work.row_stride + column;
        copy = work.forward ? place_in_blocks(row, column, work.columns) : -1;
    }

    __device__ __forceinline__ void start_loading(const Network& network) const {
        copy_16_bytes(&kept[0][threadIdx.x], network.parameters + at);
        if (ADAM || HAS_MOMENTUM) copy_16_bytes(&kept[1][threadIdx.x], network.moments1 + at);
        if (ADAM) copy_16_bytes(&kept[2][threadIdx.x], network.moments2 + at);
    }

    __device__ __forceinline__ void move_all(const Network& network, const Work& work,
                                             Scalars now) const {
        const float4 sum = sum_of_few_parts<float4>(partials, parts, part_stride);
        kept[3][threadIdx.x] =
            make_float4(scale * sum.x, scale * sum.y, scale * sum.z, scale * sum.w);
        wait_for_all_copies();
        float* mine[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) mine[i] = (float*)&kept[i][threadIdx.x];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            Element element = {mine[0][i], mine[1][i], mine[2][i]};
            move(element, mine[3][i], now);
            mine[0][i] = element.parameter;
            mine[1][i] = element.moment1;
            mine[2][i] = element.moment2;
        }
        const float4 moved = kept[0][threadIdx.x];
        *(float4*)(network.parameters + at) = moved;
        if (ADAM || HAS_MOMENTUM) *(float4*)(network.moments1 + at) = kept[1][threadIdx.x];
        if (ADAM) *(float4*)(network.moments2 + at) = kept[2][threadIdx.x];
        if (copy < 0) return;
        const __half2 pairs[2] = {__floats2half2_rn(copy_factor * moved.x, copy_factor * moved.y),
                                  __floats2half2_rn(copy_factor * moved.z, copy_factor * moved.w)};
        *(uint2*)(work.forward + copy) = *(const uint2*)pairs;  // there are no transposes
    }
};

// Returns the end of a warp's elements.
__device__ __forceinline__ int end_of(const Work& work) {
    return min(work.first + work.elements, work.size);
}

// Updates the elements of a warp that cannot be loaded four at a time.
__device__ __forceinline__ void move_singly(const Work& work, const Elements& elements,
                                            Scalars now) {
#pragma unroll 1
    for (int own = work.first + threadIdx.x % 32; own < end_of(work); own += 32) {
        Element mine = elements.load(work, own, false);
        const int row = own / work.columns, column = own - row * work.columns;
        const float* at = work.partials + (long long)row * work.row_stride + column;
        move(mine, work.scale * sum_of_few_parts<float>(at, work.parts, work.part_stride), now);
        elements.store(work, own, mine);
    }
}

// Sets, before steps are taken, the number of finished steps and the weights' copies for products;
// the update writes these copies from then on. Grid: (a network's blocks, networks).
extern "C" __global__ void __launch_bounds__(THREADS)
    begin_steps(long long first_step, const Network* networks) {
    const Network& network = networks[blockIdx.y];
    const int index = (int(blockIdx.x) - 1) * WARPS + threadIdx.x / 32;
    if (index < 0) {
        if (threadIdx.x > 0) return;
        *network.step_taken = first_step;
        network.scalars[first_step & 1] = scalars_of(first_step, *network.schedule);
    } else if (index < BLOCKS) {
        const Work& work = network.works[index];
        if (!work.forward) return;
        for (int own = work.first + threadIdx.x % 32; own < end_of(work); own += 32)
            place_weight(work.copy_factor * network.parameters[work.parameter_offset + own],
                         own / work.columns, own % work.columns, work.size / work.columns,
                         work.columns, work.forward, work.backward);
    }
}

// Grid: (a network's blocks, 1 + networks). The kernel uses few registers, so that many blocks are
// resident at once; a block that is not resident starts only when another one ends.
extern "C" __global__ void __launch_bounds__(THREADS, 5) update_batch(const Network* networks) {
    __shared__ float4 kept[4][THREADS];
    if (blockIdx.y == 0) {
        prepare_scalars(networks);
        return;
    }
    const Network& network = networks[blockIdx.y - 1];
    const long long step = __ldcg(network.step_taken);  // only the previous update has changed it
    const int index = (int(blockIdx.x) - 1) * WARPS + threadIdx.x / 32;
    const Work& work = network.works[min(max(index, 0), BLOCKS - 1)];
    const bool goes_by_fours =
        work.is_vector() && work.parameter_offset % 4 == 0 && work.size % 4 == 0;
    const int own = work.first + threadIdx.x % 32 * 4;
    const FourElements four(work, own, kept);
    const bool has_four = 0 <= index && index < BLOCKS && goes_by_fours && own < work.size;
    if (has_four) four.start_loading(network);
    const Scalars now = load_scalars(network.scalars + (step & 1));
    __syncthreads();
    const bool is_last = threadIdx.x == 0 && is_last_reader(network);
    wait_for_earlier_kernels();
    if (is_last) count_step(network, step);
    if (blockIdx.x == 0)
        add_totals(network.loss_partials, network.totals);
    else if (has_four)
        four.move_all(network, work, now);
    else if (index < BLOCKS && !goes_by_fours)
        move_singly(work, {network.parameters, network.moments1, network.moments2}, now);
}

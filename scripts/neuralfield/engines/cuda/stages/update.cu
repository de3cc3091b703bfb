// The end of a step: partial gradients are added up in a fixed order, and the parameters updated.
// Reference implementations: nn/optimizers.py, nn/schedules.py.
//
// Constants: BLOCKS (of parameters), ADAM (else gradient descent), HAS_MOMENTUM, MOMENTUM, BETA1,
// BETA2, ONE_MINUS_BETA1, ONE_MINUS_BETA2, EPSILON, LOSS_PARTS, CLIPPED (the gradient's norm is
// limited to CLIP_NORM), MUON (the direction of hidden matrices is computed here, with MUON_MOMENTUM
// and ONE_MINUS_MUON_MOMENTUM, and muon.cu updates them).
//
// A block adds up ELEMENTS neighbouring elements. Each of its 8 warps adds up every 8th part, so that
// many loads are in flight at once. If there is only a single part, so that there is nothing to add
// up, a block has ELEMENTS_OF_ONE elements.

#include "../dependent_launch.cuh"
#include "step_scalars.cuh"
#include "../weight_blocks.cuh"

#define WARPS 8
#define THREADS (32 * WARPS)
#define ELEMENTS 128
#define ELEMENTS_OF_ONE (4 * THREADS)

// The work of one block of parameters.
struct Work {
    const float* partials;
    float* direction;            // of a hidden matrix under Muon, else null
    __half *forward, *backward;  // of a weight: copies for matrix products, or null
    int parts, part_stride, row_stride, columns;
    int first, size;  // the block's first element in this tensor, and the tensor's elements
    int parameter_offset, moment2_offset;  // of the tensor
    int elements;   // of the block: ELEMENTS, or ELEMENTS_OF_ONE
    int is_vector;  // whether elements can be loaded four at a time
    float scale;
    float copy_factor;

    // Returns the index in the tensor of this thread's element with a number, or -1: there is none.
    __device__ __forceinline__ int own_element(int number) const {
        const int place = number * THREADS + threadIdx.x, own = first + place;
        return place < elements && own < size ? own : -1;
    }

    // Returns the place of an element in the first part.
    __device__ __forceinline__ const float* partial(int element) const {
        const int row = element / columns, column = element - row * columns;
        return partials + (long long)row * row_stride + column;
    }
};

struct Schedule {
    double learning_rate, minimum_learning_rate;
    long long period, warmup_steps;
    long long kind;  // SCHEDULE_CONSTANT, SCHEDULE_COSINE or SCHEDULE_EXPONENTIAL
};

// Not inlined, so that all kernels that call it get the same bits.
__device__ __noinline__ Scalars scalars_of(long long step, const Schedule& schedule) {
    double rate = schedule.learning_rate;
    const long long place = step < schedule.period ? step : schedule.period;
    if (schedule.kind == SCHEDULE_COSINE) {
        const double pi = 3.141592653589793;
        double cosine = 0.5 * (1.0 + cos(pi * double(place) / double(schedule.period)));
        rate = schedule.minimum_learning_rate +
               (schedule.learning_rate - schedule.minimum_learning_rate) * cosine;
    } else if (schedule.kind == SCHEDULE_EXPONENTIAL) {
        rate *= pow(schedule.minimum_learning_rate / rate, double(place) / double(schedule.period));
    }
    if (step < schedule.warmup_steps) rate *= double(step + 1) / double(schedule.warmup_steps);
#if ADAM
    double count = double(step + 1);
    return {float(rate / (1.0 - pow(BETA1, count))), float(1.0 / sqrt(1.0 - pow(BETA2, count))),
            float(rate)};
#else
    return {float(rate), 1.0f, float(rate)};
#endif
}

// Sets the number of finished steps, and the scalars of the next step.
extern "C" __global__ void set_step(long long first_step, long long* step, Scalars* scalars,
                                    const Schedule* schedule) {
    *step = first_step;
    scalars[first_step & 1] = scalars_of(first_step, *schedule);
}

__device__ __forceinline__ void add_to(float& sum, float number) { sum += number; }
__device__ __forceinline__ void add_to(float4& sum, float4 number) {
    sum.x += number.x;
    sum.y += number.y;
    sum.z += number.z;
    sum.w += number.w;
}

// Adds up this warp's parts, which are every WARPS-th part, of the block's elements, four at a time or
// one. Several parts are loaded before the first is added, and no load is conditional, so that all
// loads are in flight at once: beyond the last part, and beyond the last element, the last is loaded
// again.
template <typename Number>
__device__ __forceinline__ void add_parts(const Work& work, float* sums) {
    constexpr int per_load = sizeof(Number) / sizeof(float), at_once = 16 / per_load;
    const int lane = threadIdx.x % 32, last = (work.size - 1) / per_load * per_load;
#pragma unroll 1
    for (int turn = 0; turn < ELEMENTS && work.first + turn <= last; turn += 32 * per_load) {
        const float* at = work.partial(min(work.first + turn + lane * per_load, last));
        Number sum = {};
        for (int part = threadIdx.x / 32; part < work.parts; part += at_once * WARPS) {
            Number loaded[at_once];
#pragma unroll
            for (int j = 0; j < at_once; ++j) {
                const long long its = min(part + j * WARPS, work.parts - 1);
                loaded[j] = *(const Number*)(at + its * work.part_stride);
            }
#pragma unroll
            for (int j = 0; j < at_once; ++j)
                if (part + j * WARPS < work.parts) add_to(sum, loaded[j]);
        }
        ((Number*)(sums + turn))[lane] = sum;
    }
}

// Returns the gradient of this thread's element, which the block's warps add up together.
__device__ __forceinline__ float sum_parts(const Work& work) {
    __shared__ __align__(16) float sums[WARPS][ELEMENTS];
    float* own_sums = sums[threadIdx.x / 32];
    if (work.is_vector)
        add_parts<float4>(work, own_sums);
    else
        add_parts<float>(work, own_sums);
    __syncthreads();
    float sum = 0.0f;
    if (threadIdx.x < ELEMENTS)
#pragma unroll
        for (int part = 0; part < WARPS; ++part) sum += sums[part][threadIdx.x];
    return work.scale * sum;
}

// Returns the sum over the block, in a fixed order; all threads get it.
template <typename Number>
__device__ __forceinline__ Number block_sum(Number number) {
    __shared__ Number of_warps[WARPS];
    for (int distance = 16; distance > 0; distance /= 2)
        number += __shfl_xor_sync(~0u, number, distance);
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = number;
    __syncthreads();
    number = 0;
    for (int warp = 0; warp < WARPS; ++warp) number += of_warps[warp];
    return number;
}

// Runs before `update` if gradients are clipped, and computes the gradients and the factor that
// limits their norm. The block that finishes last adds up the squares of all blocks, in an order
// that does not depend on which block that is. Grid: (BLOCKS,).
#if CLIPPED
extern "C" __global__ void __launch_bounds__(THREADS)
    sum_gradients(const Work* __restrict__ works, float* __restrict__ gradients, double* squares,
                  float* clip_factor, unsigned int* blocks_done) {
    __shared__ bool is_last;
    const Work work = works[blockIdx.x];
    const float gradient = sum_parts(work);
    const int own = work.own_element(0);
    if (own >= 0) gradients[work.parameter_offset + own] = gradient;
    const double square = block_sum(own >= 0 ? double(gradient) * double(gradient) : 0.0);
    if (threadIdx.x == 0) {
        squares[blockIdx.x] = square;
        __threadfence();
        is_last = atomicAdd(blocks_done, 1u) == BLOCKS - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    double sum = 0.0;
    for (int block = threadIdx.x; block < BLOCKS; block += THREADS) sum += __ldcg(squares + block);
    const double norm = sqrt(block_sum(sum));
    if (threadIdx.x == 0) {
        *clip_factor = norm <= CLIP_NORM ? 1.0f : float(CLIP_NORM / norm);  // NaN stays NaN
        *blocks_done = 0;
    }
}
#endif

// Adds the column sums of the loss's parts to the totals, in a separate block.
__device__ void add_totals(const double* __restrict__ loss_partials, double* totals) {
    __shared__ double sums[2][THREADS];
    double loss = 0.0, squared_error = 0.0;
    for (int part = threadIdx.x; part < LOSS_PARTS; part += THREADS) {
        loss += __ldcg(loss_partials + 2 * part);
        squared_error += __ldcg(loss_partials + 2 * part + 1);
    }
    sums[0][threadIdx.x] = loss;
    sums[1][threadIdx.x] = squared_error;
    for (int width = THREADS / 2; width > 0; width /= 2) {
        __syncthreads();
        if (threadIdx.x < width)
            for (int column = 0; column < 2; ++column)
                sums[column][threadIdx.x] += sums[column][threadIdx.x + width];
    }
    if (threadIdx.x == 0) {
        totals[0] += sums[0][0];
        totals[1] += sums[1][0];
    }
}

// A parameter and the optimizer's state for it: 0 to 2 moments.
struct Element {
    float parameter, moment1, moment2;
};

// Multiply-adds are written explicitly, so that every kernel gets the same bits.
__device__ __forceinline__ void move(Element& element, float gradient, Scalars now) {
#if ADAM
    element.moment1 =
        fmaf(float(ONE_MINUS_BETA1), gradient, __fmul_rn(element.moment1, float(BETA1)));
    element.moment2 = fmaf(__fmul_rn(float(ONE_MINUS_BETA2), gradient), gradient,
                           __fmul_rn(element.moment2, float(BETA2)));
    float scale = fmaf(sqrtf(element.moment2), now.inverse_correction2, float(EPSILON));
    element.parameter -= __fmul_rn(now.rate, element.moment1) / scale;
#elif HAS_MOMENTUM
    element.moment1 = __fadd_rn(__fmul_rn(element.moment1, float(MOMENTUM)), gradient);
    element.parameter = fmaf(-now.rate, element.moment1, element.parameter);
#else
    element.parameter = fmaf(-now.rate, gradient, element.parameter);
#endif
}

// Returns an element of the direction of a hidden matrix with Muon, before orthogonalisation.
__device__ __forceinline__ float turn(Element& element, float gradient) {
#if MUON
    const float kept = float(MUON_MOMENTUM), fresh = float(ONE_MINUS_MUON_MOMENTUM) * gradient;
    element.moment1 = kept * element.moment1 + fresh;
    return kept * element.moment1 + fresh;
#else
    return 0.0f;
#endif
}

// The parameters, and the optimizer's state for them.
struct Elements {
    float *parameters, *moments1, *moments2;

    __device__ __forceinline__ Element load(const Work& work, int own, bool is_hidden) const {
        const int at = work.parameter_offset + own;
        Element element = {};
        if (!is_hidden) element.parameter = __ldcg(parameters + at);
        if (ADAM || HAS_MOMENTUM) element.moment1 = __ldcg(moments1 + at);
        if (ADAM && !is_hidden) element.moment2 = __ldcg(moments2 + work.moment2_offset + own);
        return element;
    }

    // Stores a parameter with its moments and its copies for matrix products.
    __device__ __forceinline__ void store(const Work& work, int own, const Element& element) const {
        const int at = work.parameter_offset + own;
        parameters[at] = element.parameter;
        if (ADAM || HAS_MOMENTUM) moments1[at] = element.moment1;
        if (ADAM) moments2[work.moment2_offset + own] = element.moment2;
        if (work.forward)
            place_weight(work.copy_factor * element.parameter, own / work.columns,
                         own % work.columns, work.size / work.columns, work.columns, work.forward,
                         work.backward);
    }
};

// Updates the elements of a block, `count` per thread, with the gradients that `find_gradients`
// writes; all threads pass a barrier in that function. In thread 0, returns the number of blocks
// that had read the step before this one, and writes the sum of the squares of a direction.
template <int count, typename FindGradients>
__device__ __forceinline__ unsigned int update_elements(const Work& work, const Elements& elements,
                                                        const Scalars* scalars,
                                                        unsigned int* blocks_done,
                                                        float* direction_square,
                                                        const FindGradients& find_gradients) {
    const bool is_hidden = MUON && work.direction;
    Element mine[count];
    float gradients[count], square = 0.0f;
    unsigned int earlier_readers = 0;
#pragma unroll
    for (int i = 0; i < count; ++i)
        if (work.own_element(i) >= 0)
            mine[i] = elements.load(work, work.own_element(i), is_hidden);
    const Scalars now = load_scalars(scalars);
    wait_for_earlier_kernels();
    find_gradients(gradients);
    // all threads have passed a barrier since they read the step
    if (threadIdx.x == 0) earlier_readers = atomicAdd(blocks_done, 1u);
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const int own = work.own_element(i);
        if (own < 0) continue;
        if (is_hidden) {
            const float direction = turn(mine[i], gradients[i]);
            elements.moments1[work.parameter_offset + own] = mine[i].moment1;
            work.direction[own] = direction;
            square += direction * direction;
        } else {
            move(mine[i], gradients[i], now);
            elements.store(work, own, mine[i]);
        }
    }
    if (is_hidden) {
        square = block_sum(square);
        if (threadIdx.x == 0) *direction_square = square;
    }
    return earlier_readers;
}

// Block 0 adds up the loss; the other BLOCKS blocks update parameters. Data that only the previous
// update has changed is read before the wait. All blocks read the same step number, and the last
// block that has read it increments it; nothing else depends on the order of blocks. Many blocks
// are resident at once, because a block spends most of its time waiting.
extern "C" __global__ void __launch_bounds__(THREADS, 6)
    update(const Work* __restrict__ works, float* __restrict__ parameters,
           float* __restrict__ moments1, float* __restrict__ moments2,
           const double* __restrict__ loss_partials, double* totals, Scalars* scalars,
           const Schedule* schedule, long long* step_taken, unsigned int* blocks_done,
           const float* __restrict__ gradients, const float* clip_factor,
           float* __restrict__ direction_squares) {
    const long long step = __ldcg(step_taken);
    unsigned int earlier_readers = 0;
    if (blockIdx.x == 0) {
        // the next step's scalars take long to compute; no block reads them in this step
        if (threadIdx.x == 0) scalars[(step + 1) & 1] = scalars_of(step + 1, *schedule);
        wait_for_earlier_kernels();
        if (threadIdx.x == 0) earlier_readers = atomicAdd(blocks_done, 1u);
        add_totals(loss_partials, totals);
    } else {
        const Elements elements = {parameters, moments1, moments2};
        const Work work = works[blockIdx.x - 1];
        const Scalars* now = scalars + (step & 1);
        float* square = direction_squares + blockIdx.x - 1;
        if (work.elements == ELEMENTS_OF_ONE)
            earlier_readers = update_elements<ELEMENTS_OF_ONE / THREADS>(
                work, elements, now, blocks_done, square, [&](auto& found) {
#pragma unroll
                    for (int i = 0; i < ELEMENTS_OF_ONE / THREADS; ++i)
                        if (work.own_element(i) >= 0)
                            found[i] = work.scale * __ldcg(work.partials + work.own_element(i));
                    __syncthreads();
                });
        else
            earlier_readers = update_elements<1>(
                work, elements, now, blocks_done, square, [&](float (&found)[1]) {
#if CLIPPED
                    const int own = work.own_element(0);
                    if (own >= 0) found[0] = *clip_factor * gradients[work.parameter_offset + own];
                    __syncthreads();
#else
                    found[0] = sum_parts(work);
#endif
                });
    }
    if (threadIdx.x == 0 && earlier_readers == gridDim.x - 1) {
        *step_taken = step + 1;
        *blocks_done = 0;
    }
}

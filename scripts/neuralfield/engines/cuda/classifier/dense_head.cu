// The linear layers of a classifier, the loss, and the gradients of all their values. Reference
// implementations: nn/ops.py (affine, relu), nn/dropout.py, nn/losses.py (softmax_cross_entropy).
//
// A block processes IMAGES images, whose values are neighbours in shared memory. It loads each
// weight once, and uses it for all of its images.
//
// Constants: those of dense_head.cuh; IMAGES (1, 2 or 4), HAS_DROPOUT, THRESHOLD, KEPT_FACTOR,
// SEED, THREADS.
#include "dense_head.cuh"
#include "../philox.cuh"

#define WARPS (THREADS / 32)
#define ALL_LANES 0xFFFFFFFFu
#define ROWS_AT_ONCE 4

struct __align__(4 * IMAGES) Numbers {  // one for each image
    float of[IMAGES];
};

__host__ __device__ constexpr int power_of_2_from(int number, int most) {
    int power = 1;
    while (power < number && power < most) power *= 2;
    return power;
}

// Returns the factor of a value under dropout: 0, or KEPT_FACTOR.
__device__ __forceinline__ float dropout_factor(int value, unsigned int sample, long long step,
                                                unsigned int layer) {
#if HAS_DROPOUT
    const Words words = philox(
        {(unsigned int)value / 4, sample, (unsigned int)step, STREAM_DROPOUT | layer << 8}, SEED);
    const int which = value % 4;
    const unsigned int word = which == 0   ? words.w0
                              : which == 1 ? words.w1
                              : which == 2 ? words.w2
                                           : words.w3;
    return word >= THRESHOLD ? float(KEPT_FACTOR) : 0.0f;
#else
    return 1.0f;
#endif
}

// Computes one layer after another; the outputs of the last one are logits.
template <int LAYER>
__device__ void forward(const float* __restrict__ parameters, const int* samples, long long step,
                        int first_image, Numbers* values, Numbers* sums,
                        float* __restrict__ hidden) {
    constexpr int IN = LAYER_SIZES[LAYER], OUT = LAYER_SIZES[LAYER + 1];
    constexpr int LANES = power_of_2_from(OUT, THREADS), SHARES = THREADS / LANES;
    constexpr bool IS_LAST = LAYER == LAYERS - 1;
    const float* __restrict__ weights = parameters + parameters_before(LAYER);
    const float* __restrict__ bias = weights + IN * OUT;
    const Numbers* const in = values + values_before(LAYER);
    Numbers* const out = values + values_before(LAYER + 1);
    const int lane = threadIdx.x % LANES, share = threadIdx.x / LANES;
    for (int first = 0; first < OUT; first += LANES) {
        Numbers sum = {};
        if (first + lane < OUT) {
#pragma unroll 16
            for (int i = share; i < IN; i += SHARES) {
                const float weight = weights[i * OUT + first + lane];
                const Numbers its = in[i];
#pragma unroll
                for (int r = 0; r < IMAGES; ++r) sum.of[r] += weight * its.of[r];
            }
        }
        sums[threadIdx.x] = sum;
        __syncthreads();
        for (int i = threadIdx.x; i < LANES * IMAGES; i += THREADS) {
            const int r = i % IMAGES, own = i / IMAGES, value = first + own;
            const int image = first_image + r;
            if (value >= OUT) continue;
            float total = 0.0f;
#pragma unroll
            for (int other = 0; other < SHARES; ++other) total += sums[other * LANES + own].of[r];
            total += bias[value];
            if (!IS_LAST) {
                total = total <= 0.0f ? 0.0f : total;
                if (image < BATCH) {
                    total *= dropout_factor(value, samples[image], step, LAYER);
                    hidden[array_of_layer(LAYER + 1) - array_of_layer(1) + (long long)image * OUT +
                           value] = total;
                }
            }
            out[value].of[r] = total;
        }
        __syncthreads();
    }
    if constexpr (!IS_LAST)
        forward<LAYER + 1>(parameters, samples, step, first_image, values, sums, hidden);
}

// Adds up COUNT numbers over LANES neighbouring lanes. Each lane ends with COUNT / LANES of the
// sums, at least one, in the first of its `numbers`; returns the index of the lane's first sum.
// Lanes that end with the same sum have the same bits.
template <int LANES, int COUNT>
__device__ __forceinline__ int add_lanes(float (&numbers)[COUNT]) {
    int first = 0, count = COUNT;
#pragma unroll
    for (int apart = LANES / 2; apart > 0; apart /= 2) {
        if (count > 1) {
            count /= 2;
            const bool is_upper = threadIdx.x & apart;
#pragma unroll
            for (int i = 0; i < COUNT / 2; ++i)
                if (i < count) {
                    const float sent = is_upper ? numbers[i] : numbers[i + count];
                    const float kept = is_upper ? numbers[i + count] : numbers[i];
                    numbers[i] = kept + __shfl_xor_sync(ALL_LANES, sent, apart);
                }
            first += is_upper ? count : 0;
        } else {
            numbers[0] += __shfl_xor_sync(ALL_LANES, numbers[0], apart);
        }
    }
    return first;
}

// Computes, from gradients of a layer's outputs before relu, those of its inputs or, if there is a
// layer before, of that layer's outputs before relu and dropout; then goes on with that layer.
template <int LAYER>
__device__ void backward(const float* __restrict__ parameters, int first_image,
                         const Numbers* values, Numbers* gradients, Numbers* gradients_in,
                         float* __restrict__ hidden_gradients, float* __restrict__ flat_gradients) {
    constexpr int IN = LAYER_SIZES[LAYER], OUT = LAYER_SIZES[LAYER + 1];
    constexpr int LANES = power_of_2_from(OUT, 32), COUNT = ROWS_AT_ONCE * IMAGES;
    constexpr int ENDING = COUNT > LANES ? COUNT / LANES : 1;
    constexpr int ALIKE = LANES > COUNT ? LANES / COUNT : 1;
    const float* __restrict__ weights = parameters + parameters_before(LAYER);
    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    // all lanes of a warp stay together until the last of its rows
    constexpr int ROWS = THREADS / LANES * ROWS_AT_ONCE;
    for (int first = 0; first < IN; first += ROWS) {
        const int row = first + group * ROWS_AT_ONCE;
        float sums[COUNT] = {};
#pragma unroll 2
        for (int o = lane; o < OUT; o += LANES) {
            const Numbers its = gradients[o];
            float weight[ROWS_AT_ONCE];
#pragma unroll
            for (int i = 0; i < ROWS_AT_ONCE; ++i)
                weight[i] = weights[min(row + i, IN - 1) * OUT + o];
#pragma unroll
            for (int i = 0; i < ROWS_AT_ONCE; ++i)
#pragma unroll
                for (int r = 0; r < IMAGES; ++r) sums[i * IMAGES + r] += weight[i] * its.of[r];
        }
        const int own = add_lanes<LANES>(sums);
        if (lane % ALIKE == 0)
#pragma unroll
            for (int i = 0; i < ENDING; ++i) {
                const int in = row + (own + i) / IMAGES, r = (own + i) % IMAGES;
                const int image = first_image + r;
                if (in >= IN) continue;
                float gradient = sums[i];
                if (LAYER > 0) {  // dropout and relu: values that are 0 pass no gradient on
                    const float value = values[values_before(LAYER) + in].of[r];
                    gradient = value > 0.0f
                                   ? (HAS_DROPOUT ? float(KEPT_FACTOR) * gradient : gradient)
                                   : 0.0f;
                    gradients_in[in].of[r] = gradient;
                }
                if (image < BATCH) {
                    float* const to =
                        LAYER > 0 ? hidden_gradients + array_of_layer(LAYER) - array_of_layer(1)
                                  : flat_gradients;
                    to[(long long)image * IN + in] = gradient;
                }
            }
    }
    __syncthreads();
    if constexpr (LAYER > 0)
        backward<LAYER - 1>(parameters, first_image, values, gradients_in, gradients,
                            hidden_gradients, flat_gradients);
}

// flat: outputs of the convolutions; flat_gradients: their gradients. hidden: values after each
// layer except the last. gradients: of each layer's outputs before relu. The last two are stored
// layer by layer, image by image.
extern "C" __global__ void __launch_bounds__(THREADS)
    dense_head(const long long* __restrict__ step_taken, const int* __restrict__ samples,
               const int* __restrict__ labels, const float* __restrict__ flat,
               const float* __restrict__ parameters, float* __restrict__ hidden,
               float* __restrict__ gradients, float* __restrict__ flat_gradients,
               double* __restrict__ loss_partials) {
    constexpr int CLASSES = LAYER_SIZES[LAYERS], FLAT_SIZE = LAYER_SIZES[0];
    constexpr int ALL = values_before(LAYERS + 1), LARGEST = largest_size();
    extern __shared__ __align__(16) float memory[];
    Numbers* const values = (Numbers*)memory;
    Numbers* const some_gradients = values + ALL;
    Numbers* const other_gradients = some_gradients + LARGEST;
    Numbers* const sums = other_gradients + LARGEST;
    __shared__ double losses[IMAGES];
    __shared__ int wrongs[IMAGES];
    const int first_image = blockIdx.x * IMAGES;
    for (int i = threadIdx.x; i < FLAT_SIZE * IMAGES; i += THREADS) {
        const int value = i % FLAT_SIZE, r = i / FLAT_SIZE, image = first_image + r;
        values[value].of[r] = image < BATCH ? flat[(long long)image * FLAT_SIZE + value] : 0.0f;
    }
    __syncthreads();
    forward<0>(parameters, samples, *step_taken, first_image, values, sums, hidden);

    const int r = threadIdx.x / 32, lane = threadIdx.x % 32, image = first_image + r;
    if (r < IMAGES) {  // a warp for each image
        const Numbers* const logits = values + values_before(LAYERS);
        float largest = logits[0].of[r];
        for (int i = 1; i < CLASSES; ++i) largest = fmaxf(largest, logits[i].of[r]);
        float total = 0.0f;
        for (int i = lane; i < CLASSES; i += 32) total += expf(logits[i].of[r] - largest);
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2)
            total += __shfl_xor_sync(ALL_LANES, total, apart);
        const bool is_there = image < BATCH;
        const int label = is_there ? labels[image] : 0;
        for (int i = lane; i < CLASSES; i += 32) {
            float gradient = expf(logits[i].of[r] - largest) / total - (i == label ? 1.0f : 0.0f);
            gradient *= is_there ? float(1.0 / BATCH) : 0.0f;
            some_gradients[i].of[r] = gradient;
            if (is_there)
                gradients[array_of_layer(LAYERS) - array_of_layer(1) + (long long)image * CLASSES +
                          i] = gradient;
        }
        if (lane == 0) {
            int answer = 0;
            while (answer < CLASSES - 1 && !(logits[answer].of[r] >= largest)) ++answer;
            losses[r] = is_there ? double(logf(total) - (logits[label].of[r] - largest)) : 0.0;
            wrongs[r] = is_there && answer != label;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double loss = 0.0;
        int wrong = 0;
        for (int i = 0; i < IMAGES; ++i) {
            loss += losses[i];
            wrong += wrongs[i];
        }
        loss_partials[2 * blockIdx.x] = loss / BATCH;
        loss_partials[2 * blockIdx.x + 1] = double(wrong) / BATCH;
    }
    backward<LAYERS - 1>(parameters, first_image, values, some_gradients, other_gradients,
                         gradients, flat_gradients);
}

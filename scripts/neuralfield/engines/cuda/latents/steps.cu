// The beginning and the end of a step: latents from parameters; gradients for them and the update.
// References: `round_softly`, nn/optimizers.py.
//
// Constants: LATENT_SCALE, BETA1, BETA2, ONE_MINUS_BETA1, ONE_MINUS_BETA2, EPSILON, RATE_WEIGHTS,
// PIXEL_WEIGHTS (without filters), BLOCKS (of the kernels of both).

#include <cuda_fp16.h>

#include "grids.cuh"

#define THREADS 256

__device__ const int offsets[NEIGHBOURS][2] = OFFSETS;
__device__ const int around[AROUND_COUNT][3] = AROUND;

// A latent: its grid, its place there, and its places in arrays with borders and of copies.
struct Place {
    int k, y, x;
    long long latent, copy;
};

__device__ __forceinline__ Place place_of(const Grid* grids, long long parameter) {
    int k = 0;
    while (k + 1 < GRIDS && parameter >= grids[k + 1].parameter) ++k;
    const long long own = parameter - grids[k].parameter;
    const int y = int(own / grids[k].columns), x = int(own - y * grids[k].columns);
    return {k, y, x, grids[k].start + y * grids[k].stride + x, grids[k].copy + own};
}

// The sum of the four bytes of a hash, of mean 0 and variance 1; see `latent_ops.noise`.
__device__ __forceinline__ float noise(unsigned int index, unsigned int key) {
    unsigned int word = index * 0x9E3779B1u + key;
    word = (word ^ (word >> 16)) * 0x7FEB352Du;
    word = (word ^ (word >> 15)) * 0x846CA68Bu;
    word ^= word >> 16;
    const int total = (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);
    return float(total - 510) * float(1 / 147.80166);
}

// Rounds softly; `derivative` is multiplied by the derivative.
__device__ __forceinline__ float round_softly(float x, float temperature, float& derivative) {
    const float inverse = 1.0f / temperature, height = 0.5f / tanhf(0.5f * inverse);
    const float middle = floorf(x) + 0.5f, t = tanhf((x - middle) * inverse);
    derivative *= height * inverse * (1.0f - t * t);
    return middle + height * t;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    round_latents(const Grid* __restrict__ grids, const Step* __restrict__ steps,
                  const int* __restrict__ step, const float* __restrict__ parameters,
                  float* __restrict__ latents, float* __restrict__ copies,
                  float* __restrict__ derivatives, long long count) {
    const long long parameter = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (parameter >= count) return;
    const Step now = steps[*step];
    const float x = LATENT_SCALE * parameters[parameter];
    float value = fminf(fmaxf(rintf(x), -64.0f), 63.0f), derivative = 0.0f;
    if (now.temperature > 0.0f) {
        derivative = LATENT_SCALE;
        value = round_softly(x, now.temperature, derivative);
        value += now.sigma * noise((unsigned int)parameter, now.key);
        value = round_softly(value, now.temperature, derivative);
    }
    const Place place = place_of(grids, parameter);
    latents[place.latent] = value;
    if (place.k > 0) copies[place.copy] = value;
    derivatives[parameter] = derivative;
}

__device__ __forceinline__ void move(float* parameter, float* moment1, float* moment2,
                                     float gradient, const Step& now) {
    const float first = float(BETA1) * *moment1 + float(ONE_MINUS_BETA1) * gradient;
    const float second = float(BETA2) * *moment2 + float(ONE_MINUS_BETA2) * gradient * gradient;
    *moment1 = first;
    *moment2 = second;
    *parameter -= now.rate * first / (sqrtf(second) * now.inverse_correction2 + float(EPSILON));
}

// Adds up the gradients of the bits for a latent.
__device__ __forceinline__ float gradient_of_bits(const Grid* grids, const Place& place,
                                                  const __half* planes, long long plane,
                                                  const float* own_gradient,
                                                  const float* features) {
    float sum = own_gradient[place.latent];
    const long long stride = grids[place.k].stride;
#pragma unroll
    for (int input = 0; input < NEIGHBOURS; ++input)
        sum += __half2float(
            planes[2 * (input / 2 * plane + place.latent - offsets[input][0] * stride -
                        offsets[input][1]) + input % 2]);
#pragma unroll
    for (int up = 1; up <= FEATURES; ++up) {
        const int finer = place.k - up;
        if (finer < 0) break;
        const long long width = ((grids[finer].columns - 1) >> up) + 1;
        const float* const column = features + grids[finer].features[up - 1] + place.x;
        const int end = min(int(grids[finer].rows), (place.y + 1) << up);
        for (int y = place.y << up; y < end; ++y) sum += column[y * width];
    }
    return sum;
}

// Adds up the gradients of pixels for a latent of the finest grid: that of its own pixel, and those
// of the sums that it is part of, also in place of latents outside of the grid.
__device__ __forceinline__ float gradient_of_pixels(const Grid& grid, const Place& place,
                                                    const __half* of_pixels) {
    const int rows = int(grid.rows), columns = int(grid.columns);
    const long long count = grid.rows * grid.columns;
    const auto at = [&](int input, int y, int x) {
        return __half2float(
            of_pixels[2 * (input / 2 * count + (long long)y * columns + x) + input % 2]);
    };
    float sum = at(0, place.y, place.x);
#pragma unroll
    for (int n = 0; n < AROUND_COUNT; ++n) {
        const int input = GRIDS + around[n][0], down = around[n][1], across = around[n][2];
        const int first_y = place.y == 0 && down < 0 ? down : 0;
        const int last_y = place.y == rows - 1 && down > 0 ? down : 0;
        const int first_x = place.x == 0 && across < 0 ? across : 0;
        const int last_x = place.x == columns - 1 && across > 0 ? across : 0;
        for (int v = place.y + first_y; v <= place.y + last_y; ++v)
            for (int u = place.x + first_x; u <= place.x + last_x; ++u) {
                const int y = v - down, x = u - across;
                if (y >= 0 && y < rows && x >= 0 && x < columns) sum += at(input, y, x);
            }
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    update_latents(const Grid* __restrict__ grids, const Step* __restrict__ steps,
                   const int* __restrict__ step, const __half* __restrict__ planes, long long plane,
                   const float* __restrict__ own_gradient, const float* __restrict__ features,
                   const __half* __restrict__ of_pixels, const float* __restrict__ of_copies,
                   const float* __restrict__ derivatives,
                   float* __restrict__ parameters, float* __restrict__ moments1,
                   float* __restrict__ moments2, long long count) {
    const long long parameter = (long long)blockIdx.x * THREADS + threadIdx.x;
    const Step now = steps[*step];
    if (parameter >= count || now.temperature == 0.0f) return;
    const Place place = place_of(grids, parameter);
    const float by_pixels = place.k == 0 ? gradient_of_pixels(grids[0], place, of_pixels)
                                         : of_copies[place.copy];
    const float by_bits = gradient_of_bits(grids, place, planes, plane, own_gradient, features);
    const float gradient = now.pixel_scale * by_pixels + now.bit_scale * by_bits;
    move(parameters + parameter, moments1 + parameter, moments2 + parameter,
         derivatives[parameter] * gradient, now);
}

// Adds up this warp's parts, which are every 8th part, of a sum; lanes have neighbouring sums.
__device__ __forceinline__ float sum_of_parts(const float* first, int parts, int stride) {
    float sum = 0.0f;
#pragma unroll 8
    for (int part = threadIdx.x / 32; part < parts; part += THREADS / 32)
        sum += first[(long long)part * stride];
    return sum;
}

// Updates the weights of all networks, whose gradients are sums of parts of the kernels' blocks:
// those of the rate model, then filters, then both matrices of the synthesis. Of level k, the
// gradients of filters are the parts from firsts[k] to firsts[k + 1]. Grid: 32 weights a block.
extern "C" __global__ void __launch_bounds__(THREADS)
    update_weights(const Step* __restrict__ steps, const int* __restrict__ step,
                   const float* __restrict__ of_rate, const float* __restrict__ of_filters,
                   const int* __restrict__ firsts, const float* __restrict__ of_pixels,
                   float* __restrict__ weights, float* __restrict__ moments1,
                   float* __restrict__ moments2) {
    __shared__ float sums[THREADS / 32][32];
    const Step now = steps[*step];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, weight = blockIdx.x * 32 + lane;
    const int filters = 4 * (GRIDS - 1), in_filters = weight - RATE_WEIGHTS;
    const int in_pixels = in_filters - filters;
    float sum = 0.0f, scale = now.pixel_scale;
    if (in_filters < 0) {
        sum = sum_of_parts(of_rate + weight, BLOCKS, RATE_WEIGHTS);
        scale = now.bit_scale;
    } else if (in_pixels < 0) {
        const int level = in_filters / 4, first = firsts[level];
        sum = sum_of_parts(of_filters + 4 * first + in_filters % 4, firsts[level + 1] - first, 4);
    } else if (in_pixels < PIXEL_WEIGHTS) {
        sum = sum_of_parts(of_pixels + in_pixels, BLOCKS, PIXEL_WEIGHTS);
        scale *= float(1 / INPUT_SCALE);
    }
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp || in_pixels >= PIXEL_WEIGHTS) return;
    for (int other = 1; other < THREADS / 32; ++other) sum += sums[other][lane];
    move(weights + weight, moments1 + weight, moments2 + weight, scale * sum, now);
}

// Adds up the bits and the squared errors of all blocks, adds the step's loss and error to the
// totals, and goes to the next step. Grid: one block.
extern "C" __global__ void __launch_bounds__(THREADS)
    finish(const Step* __restrict__ steps, int* __restrict__ step, const double* __restrict__ bits,
           const double* __restrict__ squares, double* __restrict__ totals,
           double pixels) {
    __shared__ double sums[2][THREADS];
    double of_bits = 0.0, of_squares = 0.0;
    for (int i = threadIdx.x; i < BLOCKS; i += THREADS) of_bits += bits[i];
    for (int i = threadIdx.x; i < BLOCKS; i += THREADS) of_squares += squares[i];
    sums[0][threadIdx.x] = of_squares;
    sums[1][threadIdx.x] = of_bits;
    for (int width = THREADS / 2; width > 0; width /= 2) {
        __syncthreads();
        if (threadIdx.x < width)
            for (int i = 0; i < 2; ++i) sums[i][threadIdx.x] += sums[i][threadIdx.x + width];
    }
    if (threadIdx.x == 0) {
        const double error = sums[0][0] / (pixels * CHANNELS);
        totals[0] += error + double(steps[*step].bit_weight) * sums[1][0] / pixels;
        totals[1] += error;
        ++*step;
    }
}

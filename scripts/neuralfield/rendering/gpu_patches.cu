// Finds similar patches of an image, and filters them together. Reference implementation:
// engines/cpu/kernels/patches.py.
//
// Constants: CHANNELS, HEIGHT, WIDTH (of the image), SCALE (the image's size relative to the small
// image's), PATCH, GROUP, REACH, STRIDE, FIRST_TURNS, LEAST_VARIANCE, ROUNDING (see
// engines/patch_groups.py), GROUP_COLUMNS, COMPARING (threads of a block of `find_similar`),
// THREADS.
//
// Sums over patches of different groups are sums of whole numbers, so that their order does not
// matter.

#define PIXELS (PATCH * PATCH)
#define SIDE (2 * REACH + 1)  // of the square of corners that similar patches may have
#define SMALL_HEIGHT (HEIGHT / SCALE)
#define SMALL_WIDTH (WIDTH / SCALE)
#define UNIT (1.0f / float(1ll << 36))  // of the whole numbers

static_assert(PIXELS == 16 && GROUP == 64, "lanes are dealt out for these");

// Returns the place of this thread among those that compute one number each.
__device__ __forceinline__ int number_of_thread() {
    return int(blockIdx.x) * THREADS + int(threadIdx.x);
}

struct Corner {
    int top, left;
};

// Returns the corner of the patch to which the patches of group `number` are similar.
__device__ __forceinline__ Corner corner_of_group(int number) {
    return {min(number / GROUP_COLUMNS * STRIDE, HEIGHT - PATCH),
            min(number % GROUP_COLUMNS * STRIDE, WIDTH - PATCH)};
}

// Returns whether a group is among those that lie `stride` px apart, or the last along an axis.
__device__ __forceinline__ bool is_taken(Corner corner, int stride) {
    return (corner.top % stride == 0 || corner.top == HEIGHT - PATCH) &&
           (corner.left % stride == 0 || corner.left == WIDTH - PATCH);
}

// Returns the corner of a patch of the group.
__device__ __forceinline__ Corner corner_in_group(Corner own, int place) {
    return {own.top + place / SIDE - REACH, own.left + place % SIDE - REACH};
}

// Adds up a number over half a warp.
__device__ __forceinline__ float half_warp_sum(float number) {
#pragma unroll
    for (int distance = 8; distance > 0; distance /= 2)
        number += __shfl_xor_sync(~0u, number, distance);
    return number;
}

// Finds the patches that are most similar to a group's own patch, in the order of their distance
// from it; found[group][rank] is a place in the square around it. Grid: (groups,).
extern "C" __global__ __launch_bounds__(COMPARING) void find_similar(
    const float* __restrict__ image, unsigned short* __restrict__ found) {
    constexpr int window = SIDE + PATCH - 1, sorted = 1024;
    static_assert(SIDE * SIDE <= sorted, "all places are sorted");
    __shared__ float pixels[window * window];
    __shared__ unsigned long long keys[sorted];
    const Corner own = corner_of_group(int(blockIdx.x));
    const int thread = int(threadIdx.x);
    for (int i = thread; i < window * window; i += COMPARING) {
        const int y = own.top - REACH + i / window, x = own.left - REACH + i % window;
        pixels[i] = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH ? image[y * WIDTH + x] : 0.0f;
    }
    __syncthreads();
    for (int place = thread; place < sorted; place += COMPARING) {
        const int down = place / SIDE, across = place % SIDE;
        const Corner corner = corner_in_group(own, place);
        unsigned long long key = ~0ull;
        if (place < SIDE * SIDE && corner.top >= 0 && corner.top <= HEIGHT - PATCH &&
            corner.left >= 0 && corner.left <= WIDTH - PATCH) {
            float distance = 0.0f;
#pragma unroll
            for (int i = 0; i < PIXELS; ++i) {
                const int row = i / PATCH, column = i % PATCH;
                const float difference = pixels[(down + row) * window + across + column] -
                                         pixels[(REACH + row) * window + REACH + column];
                distance = fmaf(difference, difference, distance);
            }
            // the bits of non-negative floats have the floats' order; the own patch is always first
            const bool is_own = down == REACH && across == REACH;
            const unsigned int order = is_own ? 0u : __float_as_uint(distance) + 1u;
            key = (unsigned long long)order << 32 | place;
        }
        keys[place] = key;
    }
    // bitonic sort
    for (int size = 2; size <= sorted; size *= 2)
        for (int distance = size / 2; distance > 0; distance /= 2) {
            __syncthreads();
            for (int i = thread; i < sorted / 2; i += COMPARING) {
                const int low = 2 * i - i % distance, high = low + distance;
                const unsigned long long a = keys[low], b = keys[high];
                if ((a > b) == ((low & size) == 0)) {
                    keys[low] = b;
                    keys[high] = a;
                }
            }
        }
    __syncthreads();
    if (thread < GROUP) {
        // if there are fewer patches, they are repeated
        int count = GROUP;
        while (keys[count - 1] == ~0ull) --count;
        found[blockIdx.x * GROUP + thread] = (unsigned short)(keys[thread % count]);
    }
}

// Approximates the principal components of each group of a row, starting from those of the group
// before; thread (i, j) of a block has an element of each matrix. A group that is not taken, or of
// which no number can reach the threshold, gets no components. Grid: (rows of groups,).
extern "C" __global__ __launch_bounds__(PIXELS* PIXELS) void find_bases(
    const float* __restrict__ image, const unsigned short* __restrict__ found, int stride,
    float threshold, float* __restrict__ bases) {
    __shared__ float numbers[GROUP][PIXELS + 1];
    __shared__ float basis[PIXELS][PIXELS + 1];
    __shared__ float covariances[PIXELS][PIXELS + 1];
    const int thread = int(threadIdx.x), i = thread / PIXELS, j = thread % PIXELS;
    basis[i][j] = i == j;
    bool goes_on = false;
    for (int column = 0; column < GROUP_COLUMNS; ++column) {
        const int number = int(blockIdx.x) * GROUP_COLUMNS + column;
        const Corner own = corner_of_group(number);
        if (!is_taken(own, stride)) continue;
        const Corner corner = corner_in_group(own, found[number * GROUP + thread / PATCH]);
        const float* from = image + size_t(corner.top + thread % PATCH) * WIDTH + corner.left;
        __syncthreads();
#pragma unroll
        for (int x = 0; x < PATCH; ++x)
            numbers[thread / PATCH][thread % PATCH * PATCH + x] = from[x];
        __syncthreads();
        // half a warp computes the mean of each pixel
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < GROUP / PIXELS; ++k) sum += numbers[k * PIXELS + j][i];
        const float mean = half_warp_sum(sum) / GROUP;
#pragma unroll
        for (int k = 0; k < GROUP / PIXELS; ++k) numbers[k * PIXELS + j][i] -= mean;
        __syncthreads();
        float product = 0.0f;
#pragma unroll 16
        for (int k = 0; k < GROUP; ++k) product = fmaf(numbers[k][i], numbers[k][j], product);
        covariances[i][j] = product;
        __syncthreads();
        const float variance = half_warp_sum(covariances[j][j]);
        if (variance < threshold * threshold) {
            goes_on = false;
            continue;
        }
        __syncthreads();
        if (i == j) covariances[i][i] += LEAST_VARIANCE * (variance + ROUNDING);
        __syncthreads();
        for (int turn = 0; turn < (goes_on ? 1 : FIRST_TURNS); ++turn) {
            product = 0.0f;
#pragma unroll
            for (int k = 0; k < PIXELS; ++k)
                product = fmaf(basis[i][k], covariances[k][j], product);
            __syncthreads();
            // rows become orthonormal one after another
            for (int row = 0; row < PIXELS; ++row) {
                if (i == row) basis[row][j] = product;
                __syncthreads();
                float other = basis[row][j];
                other *= rsqrtf(half_warp_sum(other * other));
                if (i == row) product = other;
                const float share = half_warp_sum(product * other);
                if (i > row) product = fmaf(-share, other, product);
            }
            __syncthreads();
            basis[i][j] = product;
            __syncthreads();
        }
        bases[size_t(number) * PIXELS * PIXELS + thread] = basis[i][j];
        goes_on = true;
    }
}

// Computes one level of Haar wavelets across the lanes of a warp, or its inverse: sums are in lanes
// that are multiples of 2 * distance, and differences are `distance` lanes after them.
__device__ __forceinline__ float haar_level(float number, int distance) {
    const int place = int(threadIdx.x) % (2 * distance);
    const float other = __shfl_xor_sync(~0u, number, distance);
    const float changed = 0.70710678f * (place ? other - number : number + other);
    return place % distance ? number : changed;
}

// Filters a group by a hard threshold, and adds the weighted results, and the weights, to the sums
// of each pixel. Each thread has one patch. Grid: (groups,).
extern "C" __global__ __launch_bounds__(GROUP) void filter_groups(
    const float* __restrict__ image, const unsigned short* __restrict__ found, int stride,
    float threshold, const float* __restrict__ bases, unsigned long long* __restrict__ sums) {
    __shared__ float4 basis[PIXELS][PIXELS / 4];
    __shared__ float halves[2][PIXELS];
    __shared__ int kept_of_warp[2];
    const int rank = int(threadIdx.x), warp = rank / 32, lane = rank % 32;
    const int group = int(blockIdx.x);
    const Corner own = corner_of_group(group);
    if (!is_taken(own, stride)) return;
    const Corner corner = corner_in_group(own, found[group * GROUP + rank]);
    const float4* from =
        reinterpret_cast<const float4*>(bases) + size_t(group) * PIXELS * PIXELS / 4;
    basis[rank / 4][rank % 4] = from[rank];
    float pixels[PIXELS], numbers[PIXELS], means[PIXELS];
    const size_t place = size_t(corner.top) * WIDTH + corner.left;
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
        pixels[p] = image[place + size_t(p / PATCH) * WIDTH + p % PATCH];
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
        float sum = half_warp_sum(pixels[p]);
        sum += __shfl_xor_sync(~0u, sum, 16);
        if (lane == 0) halves[warp][p] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
        means[p] = (halves[0][p] + halves[1][p]) / GROUP;
        pixels[p] -= means[p];
    }
#pragma unroll
    for (int r = 0; r < PIXELS; ++r) {
        float sum = 0.0f;
#pragma unroll
        for (int q = 0; q < PIXELS / 4; ++q) {
            const float4 four = basis[r][q];
            sum = fmaf(four.x, pixels[4 * q], sum);
            sum = fmaf(four.y, pixels[4 * q + 1], sum);
            sum = fmaf(four.z, pixels[4 * q + 2], sum);
            sum = fmaf(four.w, pixels[4 * q + 3], sum);
        }
        numbers[r] = sum;
    }
    __syncthreads();
    // wavelets across patches: within both warps, and then between them
#pragma unroll
    for (int r = 0; r < PIXELS; ++r) {
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2)
            numbers[r] = haar_level(numbers[r], distance);
        if (lane == 0) halves[warp][r] = numbers[r];
    }
    __syncthreads();
    int kept = 0;
#pragma unroll
    for (int r = 0; r < PIXELS; ++r) {
        const float first = halves[0][r], second = halves[1][r];
        if (lane == 0) numbers[r] = 0.70710678f * (warp ? first - second : first + second);
        if (fabsf(numbers[r]) < threshold)
            numbers[r] = 0.0f;
        else
            ++kept;
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        kept += __shfl_xor_sync(~0u, kept, distance);
    __syncthreads();
    if (lane == 0) {
        kept_of_warp[warp] = kept;
#pragma unroll
        for (int r = 0; r < PIXELS; ++r) halves[warp][r] = numbers[r];
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < PIXELS; ++r) {
        const float first = halves[0][r], second = halves[1][r];
        if (lane == 0) numbers[r] = 0.70710678f * (warp ? first - second : first + second);
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2)
            numbers[r] = haar_level(numbers[r], distance);
    }
    // a group weighs more if fewer numbers remain; the means of pixels count as two numbers
    const float weight = 1.0f / float(2 + kept_of_warp[0] + kept_of_warp[1]);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) pixels[p] = means[p];
#pragma unroll
    for (int r = 0; r < PIXELS; ++r)
#pragma unroll
        for (int q = 0; q < PIXELS / 4; ++q) {
            const float4 four = basis[r][q];
            pixels[4 * q] = fmaf(four.x, numbers[r], pixels[4 * q]);
            pixels[4 * q + 1] = fmaf(four.y, numbers[r], pixels[4 * q + 1]);
            pixels[4 * q + 2] = fmaf(four.z, numbers[r], pixels[4 * q + 2]);
            pixels[4 * q + 3] = fmaf(four.w, numbers[r], pixels[4 * q + 3]);
        }
    const unsigned long long whole_weight = __float2ll_rn(weight / UNIT);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) {
        unsigned long long* to = sums + 2 * (place + size_t(p / PATCH) * WIDTH + p % PATCH);
        atomicAdd(to, (unsigned long long)__float2ll_rn(weight * pixels[p] / UNIT));
        atomicAdd(to + 1, whole_weight);
    }
}

// Divides sums by weights, and sets both to zero. Grid: (pixels / THREADS,).
extern "C" __global__ void take_means(longlong2* __restrict__ sums, float* __restrict__ image) {
    const int i = number_of_thread();
    if (i >= HEIGHT * WIDTH) return;
    image[i] = float(double(sums[i].x) / double(sums[i].y));
    sums[i] = {0, 0};
}

// Computes each channel as a weighted sum of channels. Grid: (pixels / THREADS,).
extern "C" __global__ void mix(const float* __restrict__ channels,
                               const float* __restrict__ weights, float* __restrict__ mixed) {
    const int i = number_of_thread();
    if (i >= HEIGHT * WIDTH) return;
    for (int c = 0; c < CHANNELS; ++c) {
        float sum = 0.0f;
        for (int d = 0; d < CHANNELS; ++d)
            sum = fmaf(weights[c * CHANNELS + d], channels[size_t(d) * HEIGHT * WIDTH + i], sum);
        mixed[size_t(c) * HEIGHT * WIDTH + i] = sum;
    }
}

// Subtracts means over squares of SCALE x SCALE px from the small image. Grid: (small numbers /
// THREADS,).
extern "C" __global__ void find_missing(const float* __restrict__ channels,
                                        const float* __restrict__ small_channels,
                                        float* __restrict__ missing) {
    const int i = number_of_thread();
    if (i >= CHANNELS * SMALL_HEIGHT * SMALL_WIDTH) return;
    const int line = i / SMALL_WIDTH, column = i % SMALL_WIDTH;  // lines of all channels
    float sum = 0.0f;
    for (int y = 0; y < SCALE; ++y)
        for (int x = 0; x < SCALE; ++x)
            sum += channels[(size_t(line) * SCALE + y) * WIDTH + column * SCALE + x];
    missing[i] = small_channels[i] - sum / (SCALE * SCALE);
}

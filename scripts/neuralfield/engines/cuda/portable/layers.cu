// Forward and backward pass of a network, layer by layer, on any GPU.
//
// Constants: those of activations.cuh, FACTORS (of a product; else 1). Sizes are kernel arguments.
// Arrays of activations are (rows, stride): rows are whole blocks of 128, and strides are multiples
// of 64. Columns beyond a layer's width have no effect, because weights are zero there. Rows beyond
// the batch have no gradient.
#include "../activations.cuh"
#include "column_sums.cuh"
#include "../element.cuh"
#include "product.cuh"
#if MIXED
#include "../matrix_product_half.cuh"
#else
#include "../matrix_product_float.cuh"
#endif

#define BLOCK_ROWS 128

// One layer's parameters, and the places of their copies for products.
struct LayerWeights {
    const float* weight;  // (fan_in, fan_out)
    const float* bias;    // (fan_out,) or null
    element* forward;     // (padded_in, padded_out): frequency * weight, zero beyond
    element* backward;    // (padded_out, padded_in): its transpose, or null
    float* scaled_bias;   // (padded_out,)
    int fan_in, fan_out, padded_in, padded_out;
    int part, padded_part;  // columns of each factor of a product; else fan_out and padded_out
    float frequency;
};

__device__ __forceinline__ int padded_column(const LayerWeights& layer, int column) {
    return column / layer.part * layer.padded_part + column % layer.part;
}

// Grid: (any, layers).
extern "C" __global__ void prepare_weights(const LayerWeights* layers) {
    const LayerWeights layer = layers[blockIdx.y];
    const int first = int(blockIdx.x * blockDim.x + threadIdx.x), step = gridDim.x * blockDim.x;
    for (int i = first; i < layer.fan_in * layer.fan_out; i += step) {
        const int row = i / layer.fan_out, column = padded_column(layer, i % layer.fan_out);
        const element value = to_element(layer.frequency * layer.weight[i]);
        layer.forward[row * layer.padded_out + weight_position(column)] = value;
        if (layer.backward) layer.backward[column * layer.padded_in + weight_position(row)] = value;
    }
    if (layer.bias)
        for (int i = first; i < layer.fan_out; i += step)
            layer.scaled_bias[padded_column(layer, i)] = layer.frequency * layer.bias[i];
}

__device__ __forceinline__ float2 input_of(const float2* inputs, int row, int valid_rows) {
    return row < valid_rows ? inputs[row] : make_float2(0.0f, 0.0f);
}

// Computes T_degree of both coordinates, by T_k+1 = 2 x T_k - T_k-1; T_-1 is T_1.
__device__ __forceinline__ float2 chebyshev_polynomials(float2 point, int degree) {
    float2 before = point, polynomial = make_float2(1.0f, 1.0f);
    for (int k = 0; k < degree; ++k) {
        const float2 next = make_float2(fmaf(2.0f * point.x, polynomial.x, -before.x),
                                        fmaf(2.0f * point.y, polynomial.y, -before.y));
        before = polynomial;
        polynomial = next;
    }
    return polynomial;
}

// Computes [sin(2 pi B p), cos(2 pi B p)] for rows 0 .. rows - 1; frequencies B are (2, count).
// T_k(x), T_k(y) for k = 0 .. polynomials - 1 follow them.
extern "C" __global__ void fourier_features(const float2* inputs, int valid_rows, int rows,
                                            const float* frequencies, int count, int polynomials,
                                            element* features, int stride) {
    const int step = int(gridDim.x * blockDim.x), columns = count + polynomials;
    for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < rows * columns; i += step) {
        const int row = i / columns, column = i % columns;
        const float2 point = input_of(inputs, row, valid_rows);
        if (column >= count) {
            const float2 both = chebyshev_polynomials(point, column - count);
            element* pair = features + size_t(row) * stride + 2 * column;
            pair[0] = to_element(both.x);
            pair[1] = to_element(both.y);
            continue;
        }
        // in turns: whole turns are subtracted first, so that large phases are not rounded coarsely
        const float turns =
            fmaf(point.x, frequencies[column], point.y * frequencies[count + column]);
        float sine, cosine;
        sincospif(2.0f * (turns - rintf(turns)), &sine, &cosine);
        features[size_t(row) * stride + column] = to_element(sine);
        features[size_t(row) * stride + count + column] = to_element(cosine);
    }
}

// Copies the inputs as they are, for a network of one layer; with `ones`, after a number 1.
extern "C" __global__ void plain_inputs(const float2* inputs, int valid_rows, int rows, int ones,
                                        element* features, int stride) {
    const int row = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (row >= rows) return;
    const float2 point = input_of(inputs, row, valid_rows);
    element* line = features + size_t(row) * stride;
    if (ones) line[0] = to_element(1.0f);
    line[ones] = to_element(point.x);
    line[ones + 1] = to_element(point.y);
}

// Computes the inputs of a grid's points `first` and on: x of columns, y of rows, row by row.
extern "C" __global__ void grid_inputs(const float* columns, const float* rows, int width,
                                       long long first, int count, float2* inputs) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) inputs[i] = make_float2(columns[(first + i) % width], rows[(first + i) / width]);
}

// Stores activations, and derivatives if they are kept and `derivatives` is not null.
struct KeepActivation {
    float inverse_frequency;
    element* values;
    element* derivatives;

    __device__ __forceinline__ void put(size_t index, float (&z)[GROUP]) const {
        float derivative[GROUP];
        activate(z, inverse_frequency, derivative);
        store_group<IS_BOUNDED>(values + index, z);
        if (KEEPS_DERIVATIVES && derivatives)
            store_group<HAS_BOUNDED_DERIVATIVES>(derivatives + index, derivative);
    }
};

// Computes the first layer from inputs in float32: a depth of 2 is too small for tensor cores.
// Grid: (rows / 128,).
extern "C" __global__ __launch_bounds__(THREADS) void first_forward(
    const float2* inputs, int valid_rows, const float* weight, const float* bias, int ones,
    int fan_out, float frequency, element* values, element* derivatives, int stride) {
    const ColumnGroup at(stride);
    if (!at.active) return;
    float offset[GROUP], x_weight[GROUP], y_weight[GROUP];
#pragma unroll
    for (int i = 0; i < GROUP; ++i) {
        const int column = at.column + i;
        const bool there = column < fan_out;
        offset[i] = there && bias ? frequency * bias[column] : 0.0f;
        if (there && ones) offset[i] += frequency * weight[column];
        x_weight[i] = there ? frequency * weight[ones * fan_out + column] : 0.0f;
        y_weight[i] = there ? frequency * weight[(ones + 1) * fan_out + column] : 0.0f;
    }
    const KeepActivation keep{1.0f / frequency, values, derivatives};
    for (int i = at.first_row; i < BLOCK_ROWS; i += at.row_step) {
        const int row = int(blockIdx.x) * BLOCK_ROWS + i;
        const float2 point = input_of(inputs, row, valid_rows);
        float z[GROUP];
#pragma unroll
        for (int j = 0; j < GROUP; ++j)
            z[j] = fmaf(point.y, y_weight[j], fmaf(point.x, x_weight[j], offset[j]));
        keep.put(size_t(row) * stride + at.column, z);
    }
}

// Sums rows of gradients, and of their products with x and y. Block b has the tiles of 64
// rows b, b + blocks, ...; its sums are at partials[b * 3 * stride]. Grid: (blocks,).
extern "C" __global__ __launch_bounds__(THREADS) void first_gradient(const float2* inputs,
                                                                     int valid_rows, int tiles,
                                                                     const element* gradients,
                                                                     int stride, float* partials,
                                                                     int accumulate) {
    __shared__ float scratch[THREADS * GROUP];
    const ColumnGroup at(stride);
    float sums[3][GROUP] = {};
    if (at.active)
        for (int tile = int(blockIdx.x); tile < tiles; tile += int(gridDim.x))
#pragma unroll 4
            for (int i = at.first_row; i < 64; i += at.row_step) {
                const int row = tile * 64 + i;
                const float2 point = input_of(inputs, row, valid_rows);
                float gradient[GROUP];
                load_group(gradients + size_t(row) * stride + at.column, gradient);
#pragma unroll
                for (int j = 0; j < GROUP; ++j) {
                    sums[0][j] += gradient[j];
                    sums[1][j] = fmaf(point.x, gradient[j], sums[1][j]);
                    sums[2][j] = fmaf(point.y, gradient[j], sums[2][j]);
                }
            }
#pragma unroll
    for (int i = 0; i < 3; ++i)
        write_column_sums(at, stride, sums[i], scratch,
                          partials + (size_t(blockIdx.x) * 3 + i) * stride, 1, accumulate);
}

// values = f(activations weight + bias). Grid: (fan_out / COLUMNS, rows / 128).
template <int COLUMNS>
__device__ __forceinline__ void forward(const element* activations, int depth,
                                        const element* weight, const float* bias, float frequency,
                                        element* values, element* derivatives, int stride) {
    const size_t row0 = size_t(blockIdx.y) * BLOCK_ROWS;
    const int column0 = int(blockIdx.x) * COLUMNS;
    const KeepActivation keep{1.0f / frequency, values, derivatives};
    auto finish = [&](int row, int column, float (&z)[GROUP]) {
#pragma unroll
        for (int i = 0; i < GROUP; i += 4) {
            const float4 part = *reinterpret_cast<const float4*>(bias + column0 + column + i);
            z[i] += part.x;
            z[i + 1] += part.y;
            z[i + 2] += part.z;
            z[i + 3] += part.w;
        }
        keep.put((row0 + row) * stride + column0 + column, z);
    };
    matrix_product<BLOCK_ROWS, COLUMNS, false, true, false>(
        activations + row0 * depth, depth, weight + column0, stride, depth, finish);
}

#if ACTIVATION == PRODUCT
#if MIXED
#define FACTOR_COLUMNS 32
#define FACTOR_ROWS 128
#else
#define FACTOR_COLUMNS 64
#define FACTOR_ROWS (FACTORS > 2 ? 64 : 128)
#endif

// values = the product of the parts of (activations weight + bias), computed in tiles with the same
// columns of all parts. Grid: (tiles that contain values, rows / 128).
extern "C" __global__ __launch_bounds__(PRODUCT_THREADS, FACTORS > 3 ? 1 : 2) void forward_product(
    const element* activations, int depth, const element* weight, const float* bias,
    element* values, element* factors, int stride) {
    const int column0 = int(blockIdx.x) * FACTOR_COLUMNS;
    for (int part_row = 0; part_row < BLOCK_ROWS; part_row += FACTOR_ROWS) {
        const size_t row0 = size_t(blockIdx.y) * BLOCK_ROWS + part_row;
        auto finish = [&](int row, int column, auto& own) {
            float z[FACTORS][GROUP];
#pragma unroll
            for (int i = 0; i < FACTORS * GROUP; i += 4) {
                const int part = i / GROUP, first = i % GROUP;
                const float4 shift = *reinterpret_cast<const float4*>(bias + part * stride +
                                                                      column0 + column + first);
                const float* sums = reinterpret_cast<const float*>(&own) + i;
                z[part][first] = sums[0] + shift.x;
                z[part][first + 1] = sums[1] + shift.y;
                z[part][first + 2] = sums[2] + shift.z;
                z[part][first + 3] = sums[3] + shift.w;
            }
            const size_t place = column0 + column + (row0 + row) * stride;
            const size_t first = column0 + column + (row0 + row) * stride * FACTORS;
            put_product(z, values + place, factors ? factors + first : nullptr, stride);
        };
        matrix_product<FACTOR_ROWS, FACTOR_COLUMNS, false, true, false, FACTORS>(
            activations + row0 * depth, depth, weight + column0, FACTORS * stride, depth, finish, 0,
            1, stride);
    }
}
#endif

// Prefetches a tile that is needed after the product into the L2 cache.
template <int COLUMNS>
__device__ __forceinline__ void prefetch_tile(const element* tile, int stride) {
    constexpr int LINE = 128 / sizeof(element), LINES = COLUMNS / LINE;
    for (int i = int(threadIdx.x); i < BLOCK_ROWS * LINES; i += PRODUCT_THREADS) {
        const element* line = tile + size_t(i / LINES) * stride + i % LINES * LINE;
        asm volatile("prefetch.global.L2 [%0];\n" ::"l"(line));
    }
}

// before = (gradients weight^T) * derivative of the activation of the layer before, if it has one,
// which is computed from the kept numbers and the values. Grid: (fan_in / COLUMNS, rows / 128).
template <int COLUMNS, bool IS_ACTIVATED = true>
__device__ __forceinline__ void backward(const element* gradients, int depth, const element* weight,
                                         const element* kept, const element* values,
                                         element* before, int stride) {
    constexpr bool NEEDS_VALUES = ACTIVATION == GABOR;
    const size_t row0 = size_t(blockIdx.y) * BLOCK_ROWS;
    const int column0 = int(blockIdx.x) * COLUMNS;
    if (IS_ACTIVATED) {
        for (int part = 0; part < FACTORS; ++part)
            prefetch_tile<COLUMNS>(kept + row0 * stride * FACTORS + part * stride + column0,
                                   stride * FACTORS);
        if (NEEDS_VALUES) prefetch_tile<COLUMNS>(values + row0 * stride + column0, stride);
    }
    auto finish = [&](int row, int column, float (&gradient)[GROUP]) {
        const size_t index = (row0 + row) * stride * FACTORS + column0 + column;
#if ACTIVATION == PRODUCT
        if (IS_ACTIVATED) {
            put_gradients_of_factors(gradient, kept + index, before + index, stride);
            return;
        }
#endif
        if (IS_ACTIVATED) {
            float state[GROUP], value[GROUP] = {};
            load_group<true>(kept + index, state);
            if (NEEDS_VALUES) load_group<true>(values + index, value);
            differentiate(gradient, state, value);
        }
        store_group(before + index, gradient);
    };
    matrix_product<BLOCK_ROWS, COLUMNS, false, true, false>(
        gradients + row0 * depth, depth, weight + column0, stride, depth, finish);
}

// Computes partial sums of activations^T gradients, and of the sums of gradients over rows. Each
// split has its share of the rows; there are splits * gridDim.x partial sums for the bias.
// Grid: (fan_in / SIDE, fan_out / SIDE, splits).
template <int SIDE>
__device__ __forceinline__ void gradient(const element* activations, int fan_in,
                                         const element* gradients, int fan_out, int tiles,
                                         float* partials, float* bias_partials, int accumulate) {
    const int splits = int(gridDim.z), split = int(blockIdx.z);
    const int first_tile = int((long long)tiles * split / splits);
    const int last_tile = int((long long)tiles * (split + 1) / splits);
    const int row0 = int(blockIdx.x) * SIDE, column0 = int(blockIdx.y) * SIDE;
    float* part = partials + (size_t(split) * fan_in + row0) * fan_out + column0;
    auto finish = [&](int row, int column, auto& values) {
        constexpr int COUNT = sizeof(values) / sizeof(float);
        float* target = part + size_t(row) * fan_out + column;
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) {
            float2* pair = reinterpret_cast<float2*>(target + i);
            float2 sum = make_float2(values[i], values[i + 1]);
            if (accumulate) sum = make_float2(pair->x + sum.x, pair->y + sum.y);
            *pair = sum;
        }
    };
    const size_t first_row = size_t(first_tile) * 64;
    const float sum = matrix_product<SIDE, SIDE, true, false, true>(
        activations + first_row * fan_in + row0, fan_in, gradients + first_row * fan_out + column0,
        fan_out, (last_tile - first_tile) * 64, finish, int(blockIdx.x), int(gridDim.x));
    if (int(threadIdx.x) < SIDE) {
        float* target = bias_partials + size_t(split * int(gridDim.x) + int(blockIdx.x)) * fan_out +
                        column0 + threadIdx.x;
        *target = accumulate ? *target + sum : sum;
    }
}

#define KERNEL extern "C" __global__ __launch_bounds__(PRODUCT_THREADS, 2)

#define KERNELS(SIZE)                                                                             \
    KERNEL void forward_##SIZE(const element* activations, int depth, const element* weight,      \
                               const float* bias, float frequency, element* values,               \
                               element* derivatives, int stride) {                                \
        forward<SIZE>(activations, depth, weight, bias, frequency, values, derivatives, stride);  \
    }                                                                                             \
    KERNEL void backward_##SIZE(const element* gradients, int depth, const element* weight,       \
                                const element* kept, const element* values, element* before,      \
                                int stride) {                                                     \
        backward<SIZE>(gradients, depth, weight, kept, values, before, stride);                   \
    }                                                                                             \
    KERNEL void gradient_##SIZE(const element* activations, int fan_in, const element* gradients, \
                                int fan_out, int tiles, float* partials, float* bias_partials,    \
                                int accumulate) {                                                 \
        gradient<SIZE>(activations, fan_in, gradients, fan_out, tiles, partials, bias_partials,   \
                       accumulate);                                                               \
    }

KERNELS(64)
KERNELS(128)

// Computes the gradients of features. Grid: (fan_in / 64, rows / 128).
KERNEL void backward_features(const element* gradients, int depth, const element* weight,
                              element* before, int stride) {
    backward<64, false>(gradients, depth, weight, nullptr, nullptr, before, stride);
}

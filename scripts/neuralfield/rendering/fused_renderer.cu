// Computes the pixels of an image as means over samples, in one kernel from coordinates to values.
// Reference implementation: rendering/array_renderer.py.
//
// Constants: those of padded_network.cuh except those for losses, PARAMETER_OFFSETS (the struct
// Offsets), and for corners TRAINING_WIDTH, TRAINING_HEIGHT.
#include "../engines/cuda/fused/padded_network.cuh"

struct Arguments {
    const double* columns;  // x of the centre of each column of pixels
    const double* rows;
    const double2* offsets;  // of the samples from the centre
    const int* pixels;       // which to render; null: all
    float* means;            // [count][CHANNELS]
    float* spreads;          // [count]: largest difference of two samples
    int count, width, samples;
};

struct Shared {
    Constants constants;
    uint64_t filled[STAGES], emptied[STAGES];
};

__device__ __forceinline__ float2 network_input(double x, double y) {
#if ENCODING == CORNERS
    const float longer = TRAINING_WIDTH > TRAINING_HEIGHT ? TRAINING_WIDTH : TRAINING_HEIGHT;
    float column = (float(x) * longer + (TRAINING_WIDTH - 1)) / 2;
    float row = (float(y) * longer + (TRAINING_HEIGHT - 1)) / 2;
    return make_float2(column / max(TRAINING_WIDTH - 1, 1), row / max(TRAINING_HEIGHT - 1, 1));
#else
    return make_float2(float(x), float(y));
#endif
}

// z of a layer, in `sums` -> its values in the buffer.
template <int columns>
__device__ __forceinline__ void activate(const TileBuffer& buffer, const Constants& constants,
                                         int layer, const float* sums) {
    const float inverse_frequency = inverse_frequencies[layer];
    buffer.clear();
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        uint32_t pairs[4];
        const ConstantPairs biases = constants_at(constants.bias[layer], column);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float2 bias = biases.of[j];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float* sum = sums + column / 2 + 4 * j + 2 * i;
                const float2 value =
                    activations(make_float2(sum[0] + bias.x, sum[1] + bias.y), inverse_frequency);
                pairs[2 * j + i] = pack_values(value);
            }
        }
        buffer.put<columns>(column, pairs);
    }
    buffer.show();
}

// Computes the layers from z of the first one to z of the last hidden one.
template <typename Sums>
__device__ __forceinline__ void forward(const TileBuffer& buffer, const Constants& constants,
                                        Sums& sums, const Stream& stream, StreamPlace& place) {
#pragma unroll 1
    for (int layer = 1; layer < HIDDEN; ++layer) {
        for_kind_of<Width>(layer - 1, [&](auto kind) {
            activate<width_after[kind.value]>(buffer, constants, layer - 1, sums);
        });
        for_kind_of<Shape>(layer, [&](auto kind) {
            constexpr int columns = width_after[kind.value];
            multiply<fan_in(kind.value), columns>(sums, buffer.tile, stream, place);
            forget_sums<columns / 2>(sums);
        });
    }
}

__device__ __forceinline__ void render_pixels(const Arguments& arguments,
                                              const Constants& constants, const TileBuffer& buffer,
                                              const Stream& stream, StreamPlace& place,
                                              int block_count) {
    float sums[WIDEST / 2];
    const float share = 1.0f / float(arguments.samples);
    for (int block = blockIdx.x; block < block_count; block += gridDim.x) {
        double x[2], y[2];
        int first = (block * BLOCK_TILES + buffer.number) * 64 + 16 * buffer.warp + buffer.lane / 4;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int index = min(first + 8 * i, arguments.count - 1);
            int pixel = arguments.pixels ? arguments.pixels[index] : index;
            int row = pixel / arguments.width;
            x[i] = arguments.columns[pixel - row * arguments.width];
            y[i] = arguments.rows[row];
        }
        float total[2][CHANNELS] = {}, lowest[2][CHANNELS], highest[2][CHANNELS];
        for (int sample = 0; sample < arguments.samples; ++sample) {
            double2 offset = arguments.offsets[sample];
            float2 points[2] = {network_input(x[0] + offset.x, y[0] + offset.y),
                                network_input(x[1] + offset.x, y[1] + offset.y)};
            if constexpr (first_product == 0) {
                buffer.clear();
                encode(points, constants, [&](int column, const uint32_t (&pairs)[4]) {
                    buffer.put<INPUT_WIDTH>(column, pairs);
                });
                buffer.show();
                multiply<INPUT_WIDTH, width_after[0]>(sums, buffer.tile, stream, place);
            } else {
                place_coordinates(buffer, sums, points, constants);
            }
            forget_sums<width_after[0] / 2>(sums);
            if constexpr (HIDDEN > 1) forward(buffer, constants, sums, stream, place);
            float z[2][CHANNELS];
            output_layer<false>(z, buffer, sums, constants);
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int channel = 0; channel < CHANNELS; ++channel) {
                    float value = output_value(z[i][channel]);
                    total[i][channel] += value;
                    lowest[i][channel] = sample ? fminf(lowest[i][channel], value) : value;
                    highest[i][channel] = sample ? fmaxf(highest[i][channel], value) : value;
                }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int index = first + 8 * i;
            if (buffer.lane % 4 != 0 || index >= arguments.count) continue;
            float spread = 0.0f;
#pragma unroll
            for (int channel = 0; channel < CHANNELS; ++channel) {
                arguments.means[size_t(index) * CHANNELS + channel] = share * total[i][channel];
                spread = fmaxf(spread, highest[i][channel] - lowest[i][channel]);
            }
            arguments.spreads[index] = spread;
        }
    }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS + LOADERS, 1)
    fused_render(const float* parameters, const float* frequencies, const char* weights,
                 const double* columns, const double* rows, const double2* offsets,
                 const int* pixels, float* means, float* spreads, int count, int width,
                 int samples) {
    extern __shared__ __align__(128) char memory[];
    char* tiles = memory + STAGES * STAGE_BYTES;
    Shared& shared = *reinterpret_cast<Shared*>(tiles + BLOCK_TILES * TILE_BYTES);
    const Stream stream = {memory, weights, shared.filled, shared.emptied};
    if (threadIdx.x == 0) init_stream(stream);
    constexpr Offsets parameter_offsets = PARAMETER_OFFSETS;
    load_constants(shared.constants, parameters, frequencies, parameter_offsets, blockDim.x);
    __syncthreads();
    const int block_count = (count + 64 * BLOCK_TILES - 1) / (64 * BLOCK_TILES);
    const int own = (block_count - int(blockIdx.x) + int(gridDim.x) - 1) / int(gridDim.x);
    StreamPlace place;
    if (!begin_stream(stream, place, own * samples)) return;
    const int number = threadIdx.x / 128;
    const TileBuffer buffer = {tiles + number * TILE_BYTES, number, int(threadIdx.x) / 32 % 4,
                               int(threadIdx.x) % 32};
    const Arguments arguments = {columns, rows,  offsets, pixels, means,
                                 spreads, count, width,   samples};
    render_pixels(arguments, shared.constants, buffer, stream, place, block_count);
    end_stream();
}

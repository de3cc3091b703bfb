// Values of a network that is only rendered: the last layer and the output function.
//
// Constants: CHANNELS, OUTPUT_SIGMOID, STEEPNESS, MIXED.
#include "../engines/cuda/loss.cuh"
#include "../engines/cuda/portable/output_product.cuh"

// Computes values (rows, CHANNELS) of the first `valid_rows` rows. Grid: (rows / 64,).
extern "C" __global__ __launch_bounds__(THREADS) void output_values(const element* activations,
                                                                    int width, const float* weight,
                                                                    const float* bias, int fan_in,
                                                                    int valid_rows, float* values) {
    __shared__ OutputWeights layer;
    __shared__ float z[TILE_ROWS * CHANNELS];
    layer.read(weight, bias, fan_in, width);
    __syncthreads();
    const size_t first_row = size_t(blockIdx.x) * TILE_ROWS;
    output_product(activations + first_row * width, width, layer, z);
    __syncthreads();
    const int i = int(threadIdx.x), row = int(first_row) + i / CHANNELS;
    if (i < TILE_ROWS * CHANNELS && row < valid_rows)
        values[first_row * CHANNELS + i] = output_value(z[i]);
}

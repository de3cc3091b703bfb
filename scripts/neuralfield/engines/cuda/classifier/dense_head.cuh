// The kernels of linear layers share these sizes.
//
// Constants: LAYERS, SIZES (values into each layer, and out of the last: a list of LAYERS + 1),
// BATCH.
#pragma once

constexpr int LAYER_SIZES[] = SIZES;

// Counts values of all layers before one, for one image: arrays lie layer by layer.
__host__ __device__ constexpr int values_before(int layer) {
    int sum = 0;
    for (int i = 0; i < layer; ++i) sum += LAYER_SIZES[i];
    return sum;
}

// Counts weights and biases of all layers before one, as parameters lie in memory.
__host__ __device__ constexpr int parameters_before(int layer) {
    int sum = 0;
    for (int i = 0; i < layer; ++i) sum += (LAYER_SIZES[i] + 1) * LAYER_SIZES[i + 1];
    return sum;
}

// The same among parts of gradients: each layer begins where four numbers can be loaded at once.
__host__ __device__ constexpr int parts_before(int layer) {
    int sum = 0;
    for (int i = 0; i < layer; ++i) sum += ((LAYER_SIZES[i] + 1) * LAYER_SIZES[i + 1] + 3) / 4 * 4;
    return sum;
}

__host__ __device__ constexpr int largest_size() {
    int largest = 0;
    for (int i = 0; i <= LAYERS; ++i) largest = LAYER_SIZES[i] > largest ? LAYER_SIZES[i] : largest;
    return largest;
}

// Layer by layer, each with an array of BATCH rows.
__host__ __device__ constexpr long long array_of_layer(int layer) {
    return (long long)BATCH * values_before(layer);
}

// Sizes that the kernels of linear layers share.
//
// Constants: LAYERS, SIZES (values into each layer, and out of the last: a list of LAYERS + 1),
// BATCH.
#pragma once

constexpr int LAYER_SIZES[] = SIZES;

// Counts values of all layers before `layer`, for one image; arrays are stored layer by layer.
__host__ __device__ constexpr int values_before(int layer) {
    int sum = 0;
    for (int i = 0; i < layer; ++i) sum += LAYER_SIZES[i];
    return sum;
}

// Counts weights and biases of all layers before `layer`, in the parameters.
__host__ __device__ constexpr int parameters_before(int layer) {
    int sum = 0;
    for (int i = 0; i < layer; ++i) sum += (LAYER_SIZES[i] + 1) * LAYER_SIZES[i + 1];
    return sum;
}

// The same in parts of gradients, where each layer begins at a multiple of four, so that four
// numbers can be loaded at once.
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

// Returns the index at which a layer's array of BATCH rows begins.
__host__ __device__ constexpr long long array_of_layer(int layer) {
    return (long long)BATCH * values_before(layer);
}

// Sizes of a network, known at compile time, and the choice of the code for a layer's size.
//
// Constants: HIDDEN (layers with an activation), WIDTHS, INPUT_WIDTH (padded to multiples of 16),
// ENCODING, BLOCK_TILES (tiles that a block works on at once, with a warpgroup each).
#pragma once

constexpr int width_after[HIDDEN] = WIDTHS;
constexpr bool has_features = ENCODING >= FOURIER;
constexpr int first_product = has_features ? 0 : 1;  // a layer before it has 2 inputs and no matrix

__host__ __device__ constexpr int fan_in(int layer) {
    return layer == 0 ? INPUT_WIDTH : width_after[layer - 1];
}

__host__ __device__ constexpr int largest_width() {
    int largest = has_features ? INPUT_WIDTH : 16;
    for (int layer = 0; layer < HIDDEN; ++layer)
        largest = width_after[layer] > largest ? width_after[layer] : largest;
    return largest;
}

constexpr int WIDEST = largest_width();
constexpr int CONSUMERS = 128 * BLOCK_TILES;
constexpr int ALL_CONSUMERS = 15;  // named barrier of all consumers
constexpr int TILE_BYTES = 64 * WIDEST * 2;
constexpr int LAST_WIDTH = width_after[HIDDEN - 1];

// ---- code for a layer -----------------------------------------------------------------------

template <int layer>
struct Kind {
    static constexpr int value = layer;
};

// What the code for a layer depends on: the width of its values (the last layer has its own code),
// or its shape, which is the fan-in and the width (the first layer has its own code).
struct Width {
    enum { first = 0, end = HIDDEN - 1 };

    __host__ __device__ static constexpr bool is_shared(int a, int b) {
        return width_after[a] == width_after[b];
    }
};

struct Shape {
    enum { first = 1, end = HIDDEN };

    __host__ __device__ static constexpr bool is_shared(int a, int b) {
        return width_after[a] == width_after[b] && fan_in(a) == fan_in(b);
    }
};

// The code for a shape exists only once, even if several layers have this shape, because the
// instructions for a few hundred numbers in registers must fit the multiprocessor's cache of
// 128 KiB. In a set of layers, each bit stands for a layer.
template <typename Property, int kind>
__host__ __device__ constexpr unsigned layers_of() {
    unsigned layers = 0;
    for (int layer = Property::first; layer < Property::end; ++layer)
        if (Property::is_shared(layer, kind)) layers |= 1u << layer;
    return layers;
}

// is_new: no earlier layer has the same width (or shape); is_last: no later layer has a new one.
template <typename Property, int kind>
__host__ __device__ constexpr bool is_new() {
    return (layers_of<Property, kind>() & ((1u << kind) - 1)) == 0;
}

template <typename Property, int kind>
__host__ __device__ constexpr bool is_last() {
    if constexpr (kind + 1 < Property::end)
        return !is_new<Property, kind + 1>() && is_last<Property, kind + 1>();
    return true;
}

// Calls `work` for the layer's width (or shape), given as the first layer that has it. The last
// kind is chosen without a condition, so that the compiler knows that some kind is always chosen,
// and that variables which all kinds set are set.
template <typename Property, int kind = Property::first, typename Work>
__device__ __forceinline__ void for_kind_of(int layer, const Work& work) {
    if constexpr (!is_new<Property, kind>()) {
        for_kind_of<Property, kind + 1>(layer, work);
    } else if constexpr (is_last<Property, kind>()) {
        work(Kind<kind>());
    } else {
        constexpr unsigned layers = layers_of<Property, kind>();
        if (layers >> layer & 1)
            work(Kind<kind>());
        else
            for_kind_of<Property, kind + 1>(layer, work);
    }
}

// Sizes of a network, known at compile time, and the choice of the code for a layer's size.
//
// Constants: HIDDEN (layers with an activation), WIDTHS, INPUT_WIDTH (padded to multiples of 16),
// ENCODING, BLOCK_TILES (tiles that a block works on at once, with a warpgroup each),
// WARP_PRODUCTS.
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

// Returns whether all tiles of values have the same number of columns.
__host__ __device__ constexpr bool has_one_width() {
    for (int layer = 0; layer < HIDDEN; ++layer)
        if (width_after[layer] != (has_features ? INPUT_WIDTH : width_after[0])) return false;
    return true;
}

// Returns the number of columns in the first half of a tile's values. Values of more than 128
// columns are stored as two halves, one after the other, because a block of
// hopper/weight_gradients.cu reads at most 128 columns.
__host__ __device__ constexpr int first_half(int columns) {
    return WARP_PRODUCTS || columns <= 128 ? columns : (columns / 2 + 15) / 16 * 16;
}

constexpr int WIDEST = largest_width();
constexpr int CONSUMERS = 128 * BLOCK_TILES;
constexpr int ALL_CONSUMERS = 15;  // named barrier of all consumers
constexpr int TILE_BYTES = 64 * WIDEST * 2;
constexpr int PRODUCER_REGISTERS = 24;
// A block starts with all registers of a multiprocessor, evenly distributed over its threads; then
// the consumers take the registers that the producer releases.
constexpr int REGISTERS_AT_START = 512 / (BLOCK_TILES + 1) / 8 * 8;
constexpr int CONSUMER_REGISTERS =
    (REGISTERS_AT_START * (BLOCK_TILES + 1) - PRODUCER_REGISTERS) / BLOCK_TILES / 8 * 8;
constexpr int LAST_WIDTH = width_after[HIDDEN - 1];

// ---- code for a layer -----------------------------------------------------------------------

template <int layer>
struct Kind {
    static constexpr int value = layer;
};

// The code for a shape exists only once, even if several layers have this shape, because the
// instructions for a few hundred numbers in registers must fit the multiprocessor's cache of
// 128 KiB. In a set of layers, each bit stands for a layer.
template <int kind>
__host__ __device__ constexpr unsigned layers_of_width() {
    unsigned layers = 0;
    for (int layer = 0; layer < HIDDEN - 1; ++layer)  // the last one has its own code
        if (width_after[layer] == width_after[kind]) layers |= 1u << layer;
    return layers;
}

template <int kind>
__host__ __device__ constexpr unsigned layers_of_shape() {
    unsigned layers = 0;
    for (int layer = 1; layer < HIDDEN; ++layer)
        if (width_after[layer] == width_after[kind] && fan_in(layer) == fan_in(kind))
            layers |= 1u << layer;
    return layers;
}

// is_new: no earlier layer has the same width (or shape); is_last_*: no later layer has a new one.
__host__ __device__ constexpr bool is_new(int kind, unsigned alike) {
    return (alike & ((1u << kind) - 1)) == 0;
}

template <int kind>
__host__ __device__ constexpr bool is_last_width() {
    if constexpr (kind + 1 < HIDDEN - 1)
        return !is_new(kind + 1, layers_of_width<kind + 1>()) && is_last_width<kind + 1>();
    return true;
}

template <int kind>
__host__ __device__ constexpr bool is_last_shape() {
    if constexpr (kind + 1 < HIDDEN)
        return !is_new(kind + 1, layers_of_shape<kind + 1>()) && is_last_shape<kind + 1>();
    return true;
}

// Calls `work` for the layer's width (or shape), given as the first layer that has it. The last
// kind is chosen without a condition, so that the compiler knows that some kind is always chosen,
// and that variables which all kinds set are set.
template <int kind = 0, typename Work>
__device__ __forceinline__ void for_width_of(int layer, const Work& work) {
    constexpr unsigned layers = layers_of_width<kind>();
    if constexpr (!is_new(kind, layers)) {
        for_width_of<kind + 1>(layer, work);
    } else if constexpr (is_last_width<kind>()) {
        work(Kind<kind>());
    } else {
        if (layers >> layer & 1)
            work(Kind<kind>());
        else
            for_width_of<kind + 1>(layer, work);
    }
}

template <int kind = 1, typename Work>
__device__ __forceinline__ void for_shape_of(int layer, const Work& work) {
    constexpr unsigned layers = layers_of_shape<kind>();
    if constexpr (!is_new(kind, layers)) {
        for_shape_of<kind + 1>(layer, work);
    } else if constexpr (is_last_shape<kind>()) {
        work(Kind<kind>());
    } else {
        if (layers >> layer & 1)
            work(Kind<kind>());
        else
            for_shape_of<kind + 1>(layer, work);
    }
}

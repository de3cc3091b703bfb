// The stream of weights through shared memory, chunk by chunk in a ring of stages, and the products
// of a tile's values with these weights.
//
// Constants: STAGES, STAGE_BYTES, and those of sizes.cuh and warpgroup.cuh.
#pragma once
#include "warpgroup.cuh"
#include "sizes.cuh"

// Rows of a matrix with `columns` columns that are copied together.
__host__ __device__ constexpr int rows_per_chunk(int rows, int columns) {
    int fitting = STAGE_BYTES / (2 * columns) / 16 * 16;
    return fitting < rows ? fitting : rows;
}

__host__ __device__ constexpr int chunk_count(int rows, int columns) {
    int size = rows_per_chunk(rows, columns);
    return (rows + size - 1) / size;
}

__host__ __device__ constexpr int stream_chunks(bool backward) {
    int count = 0;
    for (int layer = first_product; layer < HIDDEN; ++layer)
        count += chunk_count(fan_in(layer), width_after[layer]);
    for (int layer = 1; backward && layer < HIDDEN; ++layer)
        count += chunk_count(width_after[layer], fan_in(layer));
    return count;
}

// Returns whether the ring has a stage for every chunk, so that weights are loaded once and stay.
template <bool backward>
__host__ __device__ constexpr bool is_resident() {
    return stream_chunks(backward) <= STAGES;
}

// Returns whether groups of 128 threads take turns at products: while one group uses the tensor
// cores, the others compute activations. With products of warps they take no turns, because one
// group does not keep the tensor cores busy. They take none if layers have different widths,
// because groups would then wait for each other where there is little to do. The first group to
// begin a product goes through its whole matrix before the last group begins, so the ring must have
// stages for a whole matrix.
__host__ __device__ constexpr bool has_turns() {
    if (WARP_PRODUCTS || BLOCK_TILES == 1) return false;
    for (int layer = 0; layer < HIDDEN; ++layer)
        if (width_after[layer] != width_after[0]) return false;
    int most = 0;
    for (int layer = first_product; layer < HIDDEN; ++layer) {
        int forward = chunk_count(fan_in(layer), width_after[layer]);
        int backward = chunk_count(width_after[layer], fan_in(layer));
        most = forward > most ? forward : most;
        most = backward > most && layer > 0 ? backward : most;
    }
    return most <= STAGES;
}

constexpr int FIRST_TURN = 8;  // named barrier of the first warpgroup

__device__ __forceinline__ void wait_for_turn() {
    if (has_turns()) named_sync<256>(FIRST_TURN + threadIdx.x / 128);
}

__device__ __forceinline__ void give_turn() {
    if (has_turns()) named_arrive<256>(FIRST_TURN + (threadIdx.x / 128 + 1) % BLOCK_TILES);
}

// Bytes of each chunk of the stream, and whether it is the last one of its matrix.
struct Chunks {
    int bytes[stream_chunks(true) + 1];
    bool is_last[stream_chunks(true) + 1];
};

__host__ __device__ constexpr Chunks list_chunks() {
    Chunks chunks = {};
    int count = 0;
    for (int step = first_product; step < 2 * HIDDEN - 1; ++step) {
        bool back = step >= HIDDEN;
        int layer = back ? 2 * HIDDEN - 1 - step : step;
        int rows = back ? width_after[layer] : fan_in(layer);
        int columns = back ? fan_in(layer) : width_after[layer];
        int size = rows_per_chunk(rows, columns);
        for (int row = 0; row < rows; row += size) {
            chunks.is_last[count] = row + size >= rows;
            chunks.bytes[count++] = 2 * columns * (size < rows - row ? size : rows - row);
        }
    }
    return chunks;
}

__constant__ Chunks stream_of_chunks = list_chunks();

// Sets the sums that a narrower layer does not use to zero; otherwise the compiler would keep their
// old values for wider layers.
template <int set>
__device__ __forceinline__ void forget_sums(float* sums) {
#pragma unroll
    for (int i = set; i < WIDEST / 2; ++i) sums[i] = 0.0f;
}

#if WARP_PRODUCTS
#include "../warps/stream.cuh"
#else
#include "../hopper/stream.cuh"
#endif

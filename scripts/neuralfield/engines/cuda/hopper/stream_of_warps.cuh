// The stream that all threads bring together, a chunk whenever they have done with one; products are
// those of warps.
#pragma once

struct Stream {
    char* buffer;  // STAGES x STAGE_BYTES of shared memory
    const char* weights;
};

// Where the next product finds its matrix, and what is to be brought next.
struct StreamPlace {
    int stage = 0, next_chunk = 0, next_byte = 0;

    __device__ __forceinline__ void advance() { stage = stage + 1 == STAGES ? 0 : stage + 1; }
};

template <bool backward>
__device__ __forceinline__ void bring_chunk(const Stream& stream, StreamPlace& place, int stage) {
    const int bytes = stream_of_chunks.bytes[place.next_chunk];
    start_copy(stream.buffer + stage * STAGE_BYTES, stream.weights + place.next_byte, bytes,
               CONSUMERS);
    end_copies();
    const bool is_last = ++place.next_chunk == stream_chunks(backward);
    place.next_chunk = is_last ? 0 : place.next_chunk;
    place.next_byte = is_last ? 0 : place.next_byte + bytes;
}

// The first chunks; where all have room, they are there behind the next barrier.
template <bool backward>
__device__ __forceinline__ void begin_stream(const Stream& stream, StreamPlace& place) {
    constexpr bool resident = is_resident<backward>();
    for (int stage = 0; stage < (resident ? stream_chunks(backward) : STAGES - 1); ++stage)
        bring_chunk<backward>(stream, place, stage);
    if (resident) wait_for_copies<0>();
}

// Wait until the next chunk is there for all; all have done with the one before, and another takes
// its place.
__device__ __forceinline__ void wait_for_chunk(const Stream& stream, StreamPlace& place) {
    wait_for_copies<STAGES - 2>();
    named_sync<CONSUMERS>(ALL_CONSUMERS);
    bring_chunk<true>(stream, place, place.stage == 0 ? STAGES - 1 : place.stage - 1);
}

// Let a round of weights pass.
template <bool backward>
__device__ __forceinline__ void skip_weights(const Stream& stream, StreamPlace& place) {
    if (is_resident<backward>()) return;
    for (int chunk = 0; chunk < stream_chunks(backward); ++chunk, place.advance())
        wait_for_chunk(stream, place);
}

// sums = (the tile's values) x (the next matrix of the stream).
template <int rows, int columns, bool resident, bool turns = false>
__device__ __forceinline__ void multiply(float* sums, const char* tile, const Stream& stream,
                                         StreamPlace& place) {
    constexpr int size = rows_per_chunk(rows, columns);
    constexpr int block_row = columns / 8 * 128;
    const uint32_t values = shared_address(tile);
    set_to_zero<columns>(sums);
#pragma unroll
    for (int row = 0; row < rows; row += size) {
        if (!resident) wait_for_chunk(stream, place);
        const uint32_t chunk = shared_address(stream.buffer + place.stage * STAGE_BYTES);
#pragma unroll
        for (int k = 0; k < size && row + k < rows; k += 16)
            Wgmma<columns>::template add<0>(
                sums, block_matrix(values + (row + k) * 16, 128, rows / 8 * 128),
                block_matrix(chunk + k / 8 * block_row, block_row, 128));
        place.advance();
    }
}

// The stream of weights for products of warps. The threads of a block's last tile load it. Barriers
// show when a chunk has been loaded, and when the warps of all tiles have finished with it; then it
// is replaced. If chunks are replaced, tiles are therefore never further apart than the ring is
// long: the last tile waits for those behind it, and tiles ahead of it wait for chunks that it has
// not loaded yet.
#pragma once

struct Stream {
    char* buffer;  // STAGES x STAGE_BYTES of shared memory
    const char* weights;
    uint64_t* filled;   // STAGES barriers, each for 128 arrivals
    uint64_t* emptied;  // STAGES barriers, each for one arrival per warp
};

// The place of the next product's matrix in the ring, and the chunk that is loaded next.
struct StreamPlace : RingPlace {
    int next_chunk = 0, next_byte = 0;
};

__host__ __device__ constexpr int largest_chunk_bytes() {
    const Chunks chunks = list_chunks();
    int largest = 0;
    for (int bytes : chunks.bytes) largest = bytes > largest ? bytes : largest;
    return largest;
}

// Returns whether all chunks have the same size.
__host__ __device__ constexpr bool chunks_are_alike() {
    const Chunks chunks = list_chunks();
    for (int chunk = 0; chunk < stream_chunks(true); ++chunk)
        if (chunks.bytes[chunk] != largest_chunk_bytes()) return false;
    return true;
}

__device__ __forceinline__ bool brings_chunks() { return threadIdx.x >= CONSUMERS - 128; }

// Starts to copy the next chunk to a stage.
template <bool backward>
__device__ __forceinline__ void bring_chunk(const Stream& stream, StreamPlace& place, int stage) {
    const int bytes =
        chunks_are_alike() ? largest_chunk_bytes() : stream_of_chunks.bytes[place.next_chunk];
    start_copy<largest_chunk_bytes(), 128>(stream.buffer + stage * STAGE_BYTES,
                                           stream.weights + place.next_byte, bytes);
    arrive_with_copies(&stream.filled[stage]);
    const bool is_last = ++place.next_chunk == stream_chunks(backward);
    place.next_chunk = is_last ? 0 : place.next_chunk;
    place.next_byte = is_last ? 0 : place.next_byte + bytes;
}

// Starts to copy the next chunk to the stage before `place`, once all warps have finished with the
// chunk in that stage.
template <bool backward>
__device__ __forceinline__ void replace_chunk(const Stream& stream, StreamPlace& place) {
    if (!brings_chunks()) return;
    const bool is_around = place.stage == 0;
    const int stage = is_around ? STAGES - 1 : place.stage - 1;
    barrier_wait(&stream.emptied[stage], place.parity ^ int(is_around));
    bring_chunk<backward>(stream, place, stage);
}

template <bool backward>
__device__ __forceinline__ void begin_stream(const Stream& stream, StreamPlace& place) {
    constexpr int chunks = is_resident<backward>() ? stream_chunks(backward) : STAGES;
    if (brings_chunks())
        for (int chunk = 0; chunk < chunks; ++chunk) bring_chunk<backward>(stream, place, chunk);
}

// Skips the weights of a wave of tiles.
template <bool backward>
__device__ __forceinline__ void skip_weights(const Stream& stream, StreamPlace& place) {
    if (is_resident<backward>()) return;
    for (int chunk = 0; chunk < stream_chunks(backward); ++chunk) {
        barrier_wait(&stream.filled[place.stage], place.parity);
        arrive_as_warp(&stream.emptied[place.stage]);
        place.advance(STAGES);
        replace_chunk<backward>(stream, place);
    }
}

// sums += (16 columns of a tile with `columns` columns in shared memory) x chunk
template <int columns, int products>
__device__ __forceinline__ void add_columns(float* sums, const char* tile, int column,
                                            BlockMatrix chunk) {
    const uint32_t first = shared_address(tile) + column * 16;
    Wgmma<products>::template add<0>(sums, block_matrix(first, 128, columns / 8 * 128), chunk);
}

// The same with a tile in registers.
template <int columns, int products>
__device__ __forceinline__ void add_columns(float* sums, const uint32_t* tile, int column,
                                            BlockMatrix chunk) {
    OperandWgmma<products>::template add<1>(sums, tile + column / 4, chunk);
}

// sums = (the tile's values or gradients) x (the next matrix of the stream). The unnamed arguments
// are `turns` and `in_halves` of hopper/stream.cuh.
template <int rows, int columns, bool resident, bool = false, bool = true, typename Number>
__device__ __forceinline__ void multiply(float* sums, const Number* tile, const Stream& stream,
                                         StreamPlace& place) {
    constexpr int size = rows_per_chunk(rows, columns);
    constexpr int block_row = columns / 8 * 128;
    set_to_zero<columns>(sums);
#pragma unroll
    for (int row = 0; row < rows; row += size) {
        barrier_wait(&stream.filled[place.stage], resident ? 0 : place.parity);
        const uint32_t chunk = shared_address(stream.buffer + place.stage * STAGE_BYTES);
#pragma unroll
        for (int k = 0; k < size && row + k < rows; k += 16) {
            add_columns<rows, columns>(sums, tile, row + k,
                                       block_matrix(chunk + k / 8 * block_row, block_row, 128));
            if (!resident && row > 0 && k == 0) replace_chunk<true>(stream, place);
        }
        if (!resident) arrive_as_warp(&stream.emptied[place.stage]);
        place.advance(STAGES);
    }
    if (!resident) replace_chunk<true>(stream, place);
}

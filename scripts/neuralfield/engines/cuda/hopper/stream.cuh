// The stream of weights for products of warpgroups. One thread loads it, and barriers tell that
// thread which stages are free.
#pragma once

typedef RingPlace StreamPlace;

struct Stream {
    char* buffer;      // STAGES x STAGE_BYTES of shared memory
    uint64_t* filled;  // STAGES barriers each
    uint64_t* emptied;
};

// Loads all matrices, once for every wave of tiles, by one thread that does nothing else.
template <bool backward>
__device__ __forceinline__ void send_weights(const Stream& stream, const char* weights, int waves) {
    constexpr bool resident = is_resident<backward>();
    constexpr int chunks = stream_chunks(backward);
    StreamPlace place;
    for (int wave = 0; wave < (resident ? 1 : waves); ++wave) {
        const char* source = weights;
        for (int chunk = 0; chunk < chunks; ++chunk, place.advance(STAGES)) {
            int bytes = stream_of_chunks.bytes[chunk];
            if (!resident) barrier_wait(&stream.emptied[place.stage], place.parity ^ 1);
            barrier_expect_bytes(&stream.filled[place.stage], bytes);
            bulk_copy(stream.buffer + place.stage * STAGE_BYTES, source, bytes,
                      &stream.filled[place.stage]);
            source += bytes;
        }
    }
}

// Skips the weights of a wave of tiles, and all turns at its products.
template <bool backward>
__device__ __forceinline__ void skip_weights(const Stream& stream, StreamPlace& place) {
    constexpr bool resident = is_resident<backward>();
    constexpr int chunks = stream_chunks(backward);
    bool is_first = true;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        if (is_first) wait_for_turn();
        if (!resident) {
            barrier_wait(&stream.filled[place.stage], place.parity);
            if (threadIdx.x % 32 == 0) barrier_arrive(&stream.emptied[place.stage]);
            place.advance(STAGES);
        }
        is_first = stream_of_chunks.is_last[chunk];
        if (is_first) give_turn();
    }
}

// sums = (the tile's values, stored in halves, or its gradients) x (the stream's next matrix).
template <int rows, int columns, bool resident, bool turns = false, bool in_halves = true>
__device__ __forceinline__ void multiply(float* sums, const char* tile, const Stream& stream,
                                         StreamPlace& place) {
    constexpr int size = rows_per_chunk(rows, columns);
    constexpr int block_row = columns / 8 * 128, half = in_halves ? first_half(rows) : rows;
    const uint32_t values = shared_address(tile);
    int previous = -1;
    const auto multiply_chunk = [&](int row, auto chunk_rows, auto is_first) {
        barrier_wait(&stream.filled[place.stage], resident ? 0 : place.parity);
        const auto chunk =
            block_matrix(shared_address(stream.buffer + place.stage * STAGE_BYTES), block_row, 128);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < chunk_rows.value; k += 16) {
            const bool is_second = half < rows && row + (half % size ? k : 0) >= half;
            const auto matrix =
                block_matrix(values, 128, (is_second ? rows - half : half) / 8 * 128);
            const auto left = part_of(matrix, (row + k) * 16 + (is_second ? half * (128 - 16) : 0));
            const auto right = part_of(chunk, k / 8 * block_row);
            if (is_first.value && k == 0)
                Wgmma<columns>::template set<0>(sums, left, right);
            else
                Wgmma<columns>::template add<0>(sums, left, right);
        }
        wgmma_commit();
        if (!resident) {
            wgmma_wait<1>();
            if (previous >= 0 && threadIdx.x % 32 == 0) barrier_arrive(&stream.emptied[previous]);
            previous = place.stage;
        }
        place.advance(STAGES);
    };
    if (turns) wait_for_turn();
    multiply_chunk(0, Kind<size>(), Kind<true>());
    // not unrolled, because the compiler would take half a second longer
#pragma unroll 1
    for (int row = size; row + size <= rows; row += size)
        multiply_chunk(row, Kind<size>(), Kind<false>());
    if constexpr (rows % size > 0)
        multiply_chunk(rows / size * size, Kind<rows % size>(), Kind<false>());
    if (turns) give_turn();
    wgmma_wait<0>();
    finished_sums<columns / 2>(sums);
    if (!resident && threadIdx.x % 32 == 0) barrier_arrive(&stream.emptied[previous]);
}

// The stream of weights through shared memory, chunk by chunk in a ring of stages, and the products
// of a tile's values with these weights. Barriers show when a chunk has been loaded, and when the
// warps of all tiles have finished with it; then it is replaced.
//
// Constants: STAGES, STAGE_BYTES, BACKWARD (whether transposes follow the matrices), and those of
// sizes.cuh and products.cuh.
#pragma once
#include "products.cuh"
#include "sizes.cuh"

struct Stream {
    char* buffer;  // STAGES x STAGE_BYTES of shared memory
    const char* weights;
    uint64_t* filled;  // STAGES barriers each
    uint64_t* emptied;
};

// Rows of a matrix with `columns` columns that are copied together.
__host__ __device__ constexpr int rows_per_chunk(int rows, int columns) {
    int fitting = STAGE_BYTES / (2 * columns) / 16 * 16;
    return fitting < rows ? fitting : rows;
}

__host__ __device__ constexpr int chunk_count(int rows, int columns) {
    int size = rows_per_chunk(rows, columns);
    return (rows + size - 1) / size;
}

__host__ __device__ constexpr int stream_chunks() {
    int count = 0;
    for (int layer = first_product; layer < HIDDEN; ++layer)
        count += chunk_count(fan_in(layer), width_after[layer]);
    for (int layer = 1; BACKWARD && layer < HIDDEN; ++layer)
        count += chunk_count(width_after[layer], fan_in(layer));
    return count;
}

constexpr int CHUNKS = stream_chunks();
// Whether the ring has a stage for every chunk, so that weights are loaded once and stay.
constexpr bool RESIDENT = CHUNKS <= STAGES;

// Returns whether groups of 128 threads take turns at products: while one group uses the tensor
// cores, the others compute activations. With mma.sync they take no turns, because one group does
// not keep the tensor cores busy. They take none if layers have different widths, because groups
// would then wait for each other where there is little to do. The first group to begin a product
// goes through its whole matrix before the last group begins, so the ring must have stages for a
// whole matrix.
__host__ __device__ constexpr bool has_turns() {
    if (!WGMMA || BLOCK_TILES == 1) return false;
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
    int bytes[CHUNKS + 1];
    bool is_last[CHUNKS + 1];
};

__host__ __device__ constexpr Chunks list_chunks() {
    Chunks chunks = {};
    int count = 0;
    for (int step = first_product; step < (BACKWARD ? 2 * HIDDEN - 1 : HIDDEN); ++step) {
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

// Initialises the barriers, by one thread.
__device__ __forceinline__ void init_stream(const Stream& stream) {
    for (int stage = 0; stage < STAGES; ++stage) {
        barrier_init(&stream.filled[stage], WGMMA ? 1 : 128);
        barrier_init(&stream.emptied[stage], 4 * BLOCK_TILES);
    }
    barrier_init_fence();
}

#if WGMMA
// ---- one thread of a warpgroup of its own loads the weights ----------------------------------

constexpr int LOADERS = 128;  // threads of a block that work on no tile
constexpr int LOADER_REGISTERS = 24;
// A block starts with all registers of a multiprocessor, evenly distributed over its threads; then
// the others take the registers that the loaders release.
constexpr int REGISTERS_AT_START = 512 / (BLOCK_TILES + 1) / 8 * 8;
constexpr int CONSUMER_REGISTERS =
    (REGISTERS_AT_START * (BLOCK_TILES + 1) - LOADER_REGISTERS) / BLOCK_TILES / 8 * 8;

typedef RingPlace StreamPlace;

// Loads all matrices, once for every wave of tiles.
__device__ __forceinline__ void send_weights(const Stream& stream, int waves) {
    StreamPlace place;
    for (int wave = 0; wave < (RESIDENT ? 1 : waves); ++wave) {
        const char* source = stream.weights;
        for (int chunk = 0; chunk < CHUNKS; ++chunk, place.advance(STAGES)) {
            int bytes = stream_of_chunks.bytes[chunk];
            if (!RESIDENT) barrier_wait(&stream.emptied[place.stage], place.parity ^ 1);
            barrier_expect_bytes(&stream.filled[place.stage], bytes);
            bulk_copy(stream.buffer + place.stage * STAGE_BYTES, source, bytes,
                      &stream.filled[place.stage]);
            source += bytes;
        }
    }
}

// Starts the stream for a number of waves of tiles. Returns false, at the end of the stream, in
// threads that work on no tile.
__device__ __forceinline__ bool begin_stream(const Stream& stream, StreamPlace&, int waves) {
    if (threadIdx.x >= CONSUMERS) {
        give_registers<LOADER_REGISTERS>();
        if (threadIdx.x == CONSUMERS) send_weights(stream, waves);
        return false;
    }
    take_registers<CONSUMER_REGISTERS>();
    if (threadIdx.x / 128 == BLOCK_TILES - 1) give_turn();  // the first turn
    return true;
}

__device__ __forceinline__ void end_stream() {
    if (threadIdx.x < 128) wait_for_turn();  // the turn that the last group has given
}

// Skips the weights of a wave of tiles, and all turns at its products.
__device__ __forceinline__ void skip_weights(const Stream& stream, StreamPlace& place) {
    bool is_first = true;
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        if (is_first) wait_for_turn();
        if (!RESIDENT) {
            barrier_wait(&stream.filled[place.stage], place.parity);
            if (threadIdx.x % 32 == 0) barrier_arrive(&stream.emptied[place.stage]);
            place.advance(STAGES);
        }
        is_first = stream_of_chunks.is_last[chunk];
        if (is_first) give_turn();
    }
}

// sums = (the tile's values or gradients) x (the stream's next matrix).
template <int rows, int columns>
__device__ __forceinline__ void multiply(float* sums, const char* tile, const Stream& stream,
                                         StreamPlace& place) {
    constexpr int size = rows_per_chunk(rows, columns);
    constexpr int block_row = columns / 8 * 128;
    const auto matrix = block_matrix(shared_address(tile), 128, rows / 8 * 128);
    int previous = -1;
    const auto multiply_chunk = [&](int row, auto chunk_rows, auto is_first) {
        barrier_wait(&stream.filled[place.stage], RESIDENT ? 0 : place.parity);
        const auto chunk =
            block_matrix(shared_address(stream.buffer + place.stage * STAGE_BYTES), block_row, 128);
        begin_products();
#pragma unroll
        for (int k = 0; k < chunk_rows.value; k += 16) {
            const auto left = part_of(matrix, (row + k) * 16);
            const auto right = part_of(chunk, k / 8 * block_row);
            if (is_first.value && k == 0)
                TileProduct<columns>::template set<0>(sums, left, right);
            else
                TileProduct<columns>::template add<0>(sums, left, right);
        }
        commit_products();
        if (!RESIDENT) {
            wait_for_products<1>();
            if (previous >= 0 && threadIdx.x % 32 == 0) barrier_arrive(&stream.emptied[previous]);
            previous = place.stage;
        }
        place.advance(STAGES);
    };
    wait_for_turn();
    multiply_chunk(0, Kind<size>(), Kind<true>());
    // not unrolled, because the compiler would take half a second longer
#pragma unroll 1
    for (int row = size; row + size <= rows; row += size)
        multiply_chunk(row, Kind<size>(), Kind<false>());
    if constexpr (rows % size > 0)
        multiply_chunk(rows / size * size, Kind<rows % size>(), Kind<false>());
    give_turn();
    wait_for_products<0>();
    finished_sums<columns / 2>(sums);
    if (!RESIDENT && threadIdx.x % 32 == 0) barrier_arrive(&stream.emptied[previous]);
}

#else
// ---- the threads of a block's last tile load the weights --------------------------------------
//
// If chunks are replaced, tiles are never further apart than the ring is long: the last tile waits
// for those behind it, and tiles ahead of it wait for chunks that it has not loaded yet.

constexpr int LOADERS = 0;

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
    for (int chunk = 0; chunk < CHUNKS; ++chunk)
        if (chunks.bytes[chunk] != largest_chunk_bytes()) return false;
    return true;
}

__device__ __forceinline__ bool brings_chunks() { return threadIdx.x >= CONSUMERS - 128; }

// Starts to copy the next chunk to a stage.
__device__ __forceinline__ void bring_chunk(const Stream& stream, StreamPlace& place, int stage) {
    const int bytes =
        chunks_are_alike() ? largest_chunk_bytes() : stream_of_chunks.bytes[place.next_chunk];
    start_copy<largest_chunk_bytes(), 128>(stream.buffer + stage * STAGE_BYTES,
                                           stream.weights + place.next_byte, bytes);
    arrive_with_copies(&stream.filled[stage]);
    const bool is_last = ++place.next_chunk == CHUNKS;
    place.next_chunk = is_last ? 0 : place.next_chunk;
    place.next_byte = is_last ? 0 : place.next_byte + bytes;
}

// Starts to copy the next chunk to the stage before `place`, once all warps have finished with the
// chunk in that stage.
__device__ __forceinline__ void replace_chunk(const Stream& stream, StreamPlace& place) {
    if (!brings_chunks()) return;
    const bool is_around = place.stage == 0;
    const int stage = is_around ? STAGES - 1 : place.stage - 1;
    barrier_wait(&stream.emptied[stage], place.parity ^ int(is_around));
    bring_chunk(stream, place, stage);
}

// Starts the stream. Returns true: all threads work on tiles.
__device__ __forceinline__ bool begin_stream(const Stream& stream, StreamPlace& place, int) {
    if (brings_chunks())
        for (int chunk = 0; chunk < (RESIDENT ? CHUNKS : STAGES); ++chunk)
            bring_chunk(stream, place, chunk);
    return true;
}

// Waits for chunks that were loaded ahead and are not needed.
__device__ __forceinline__ void end_stream() {
    end_copies();
    wait_for_copies<0>();
}

// Reports that this warp has finished with a chunk.
__device__ __forceinline__ void leave_chunk(const Stream& stream, StreamPlace& place) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(&stream.emptied[place.stage]);
}

// Skips the weights of a wave of tiles.
__device__ __forceinline__ void skip_weights(const Stream& stream, StreamPlace& place) {
    if (RESIDENT) return;
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
        barrier_wait(&stream.filled[place.stage], place.parity);
        leave_chunk(stream, place);
        place.advance(STAGES);
        replace_chunk(stream, place);
    }
}

// sums += (16 columns of a tile with `columns` columns in shared memory) x chunk
template <int columns, int products>
__device__ __forceinline__ void add_columns(float* sums, const char* tile, int column,
                                            BlockMatrix chunk) {
    const uint32_t first = shared_address(tile) + column * 16;
    TileProduct<products>::template add<0>(sums, block_matrix(first, 128, columns / 8 * 128), chunk);
}

// The same with a tile in registers.
template <int columns, int products>
__device__ __forceinline__ void add_columns(float* sums, const uint32_t* tile, int column,
                                            BlockMatrix chunk) {
    OperandProduct<products>::template add<1>(sums, tile + column / 4, chunk);
}

// sums = (the tile's values or gradients) x (the stream's next matrix).
template <int rows, int columns, typename Number>
__device__ __forceinline__ void multiply(float* sums, const Number* tile, const Stream& stream,
                                         StreamPlace& place) {
    constexpr int size = rows_per_chunk(rows, columns);
    constexpr int block_row = columns / 8 * 128;
    set_to_zero<columns>(sums);
#pragma unroll
    for (int row = 0; row < rows; row += size) {
        barrier_wait(&stream.filled[place.stage], RESIDENT ? 0 : place.parity);
        const uint32_t chunk = shared_address(stream.buffer + place.stage * STAGE_BYTES);
#pragma unroll
        for (int k = 0; k < size && row + k < rows; k += 16) {
            add_columns<rows, columns>(sums, tile, row + k,
                                       block_matrix(chunk + k / 8 * block_row, block_row, 128));
            if (!RESIDENT && row > 0 && k == 0) replace_chunk(stream, place);
        }
        if (!RESIDENT) leave_chunk(stream, place);
        place.advance(STAGES);
    }
    if (!RESIDENT) replace_chunk(stream, place);
}
#endif

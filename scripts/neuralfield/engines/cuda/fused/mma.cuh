// The back-end for every GPU from compute capability 8.0 on: copies of 16 bytes by all threads of a
// block, and products of each warp for its own 16 of a tile's 64 rows. A product is complete when
// its function returns.
#pragma once

// ---- copies ---------------------------------------------------------------------------------

// Starts to copy bytes (a multiple of 16, at most `most_bytes`) from global to shared memory, by
// all threads of a block or of a tile in it.
template <int most_bytes, int threads>
__device__ __forceinline__ void start_copy(void* to, const void* from, int bytes = most_bytes) {
    const int first = (threads == 128 ? threadIdx.x % 128 : threadIdx.x) * 16;
    const uint32_t target = shared_address(to) + first;
    const char* source = static_cast<const char*>(from) + first;
#pragma unroll
    for (int i = 0; i < most_bytes; i += threads * 16)
        if (first + i < bytes) copy_16_bytes(target + i, source + i);
}

// Starts a copy for a whole block; threads need a barrier after the wait.
template <int most_bytes, int threads>
__device__ __forceinline__ void start_block_copy(void* to, const void* from, int bytes, uint64_t*) {
    start_copy<most_bytes, threads>(to, from, bytes);
}

__device__ __forceinline__ void wait_for_block_copies(uint64_t*) {
    end_copies();
    wait_for_copies<0>();
}

__device__ __forceinline__ void barrier_init_fence() {}

// Makes this thread's copies so far arrive at the barrier when they are done.
__device__ __forceinline__ void arrive_with_copies(uint64_t* barrier) {
    asm volatile(
        "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier))
        : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t* barrier, int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.test_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

// Copies a tile of 128 threads from shared to global memory; each warp copies its own rows.
__device__ __forceinline__ void store_tile(void* to, const void* from, int bytes) {
    const int first = threadIdx.x / 32 % 4 * (bytes / 4);
#pragma unroll 4
    for (int i = threadIdx.x % 32 * 16; i < bytes / 4; i += 32 * 16)
        __stcs(reinterpret_cast<uint4*>(static_cast<char*>(to) + first + i),
               *reinterpret_cast<const uint4*>(static_cast<const char*>(from) + first + i));
}

// Does nothing, because store_tile has read its source when it returns.
__device__ __forceinline__ void bulk_stores_read() {}

// Does nothing, because weight_gradients.cu waits for the end of the pass.
__device__ __forceinline__ void count_stored(unsigned*) {}

// Does nothing, because barriers alone order all accesses here.
__device__ __forceinline__ void fence_shared() {}

// Stores the four 8 x 8 matrices of a warp's rows and of 16 columns in a tile in shared memory.
template <int columns>
__device__ __forceinline__ void store_matrices(uint32_t tile, int warp, int lane, int column,
                                               const uint32_t (&matrices)[4]) {
    const uint32_t address = tile + (2 * warp * (columns / 8) + column / 8) * 128 + lane * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i)
        asm volatile(
            "st.shared.u32 [%0], %1;" ::"r"(address + i % 2 * (columns * 16) + i / 2 * 128),
            "r"(matrices[i])
            : "memory");
}

// ---- matrix products -----------------------------------------------------------------------

__device__ __forceinline__ void begin_products() {}
__device__ __forceinline__ void commit_products() {}

template <int pending>
__device__ __forceinline__ void wait_for_products() {}

template <int count>
__device__ __forceinline__ void finished_sums(float*) {}

// A matrix of 16-bit numbers in shared memory as 8 x 8 blocks of 128 contiguous bytes. The strides,
// in bytes, lead to the next block along the summed and along the kept dimension.
struct BlockMatrix {
    uint32_t address;
    int summed_stride, kept_stride;

    // Returns the address that this lane passes to load 2 x 2 blocks. With `summed_first`, the
    // second block is the next one along the summed dimension, otherwise along the kept one.
    template <bool summed_first>
    __device__ __forceinline__ uint32_t own_row() const {
        const int lane = threadIdx.x % 32, second = lane / 8 % 2, third = lane / 16;
        return address + (summed_first ? second : third) * summed_stride +
               (summed_first ? third : second) * kept_stride + lane % 8 * 16;
    }
};

__device__ __forceinline__ BlockMatrix block_matrix(uint32_t address, int summed_stride,
                                                    int kept_stride) {
    return {address, summed_stride, kept_stride};
}

__device__ __forceinline__ BlockMatrix part_of(BlockMatrix matrix, int bytes) {
    matrix.address += bytes;
    return matrix;
}

// Loads the first 16 x 16 numbers of a left matrix, whose blocks have rows along the summed
// dimension if `transposed`, otherwise along the kept one.
template <int transposed>
__device__ __forceinline__ void load_left(uint32_t (&a)[4], BlockMatrix matrix) {
    load_matrices<transposed>(a, matrix.own_row<false>());
}

// Loads the first 16 x 16 numbers of a right matrix: the first 8 of the kept dimension, then 8
// more.
template <int by_rows>
__device__ __forceinline__ void load_right(uint32_t (&b)[4], BlockMatrix matrix) {
    load_matrices<by_rows>(b, matrix.own_row<true>());
}

// sums (16 x columns) += a (16 x 16) b (16 x columns)
template <int columns, int by_rows>
__device__ __forceinline__ void multiply_add(float* sums, const uint32_t* a, BlockMatrix b) {
    if (columns == 8) b.kept_stride = 0;  // there is no other block
#pragma unroll
    for (int column = 0; column < columns; column += 16) {
        uint32_t blocks[4];
        load_right<by_rows>(blocks, part_of(b, column / 8 * b.kept_stride));
        add_product(sums + column / 2, a, blocks[0], blocks[1]);
        if (column + 8 < columns) add_product(sums + column / 2 + 4, a, blocks[2], blocks[3]);
    }
}

template <int columns>
__device__ __forceinline__ void set_to_zero(float* sums) {
#pragma unroll
    for (int i = 0; i < columns / 2; ++i) sums[i] = 0.0f;
}

// The same interface as the structs that wgmma.py writes.
template <int columns>
struct OperandProduct {
    template <int transposed>
    static __device__ __forceinline__ void add(float* sums, const uint32_t* a, BlockMatrix b) {
        multiply_add<columns, transposed>(sums, a, b);
    }

    template <int transposed>
    static __device__ __forceinline__ void set(float* sums, const uint32_t* a, BlockMatrix b) {
        set_to_zero<columns>(sums);
        add<transposed>(sums, a, b);
    }
};

template <int columns>
struct TileProduct {
    template <int transposed>
    static __device__ __forceinline__ void add(float* sums, BlockMatrix a, BlockMatrix b) {
        uint32_t own[4];  // of this warp's 16 rows
        load_left<transposed>(own, part_of(a, threadIdx.x / 32 % 4 * 2 * a.kept_stride));
        multiply_add<columns, 1>(sums, own, b);
    }

    template <int transposed>
    static __device__ __forceinline__ void set(float* sums, BlockMatrix a, BlockMatrix b) {
        set_to_zero<columns>(sums);
        add<transposed>(sums, a, b);
    }
};

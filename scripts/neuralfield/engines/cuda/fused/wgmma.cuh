// The back-end for compute capability 9.0: bulk copies, and matrix products of a warpgroup (128
// threads). wgmma.py writes the products themselves.
#pragma once

// ---- copies ---------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_expect_bytes(uint64_t* barrier, int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t* barrier, int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}

// Raises, or below lowers, the number of registers of each thread of a warpgroup.
template <int count>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

template <int count>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}

// Returns the cache policy for data that is not read again soon: the L2 cache evicts it first.
__device__ __forceinline__ uint64_t passing_through() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// Copies bytes (a multiple of 16) from global to shared memory; the barrier counts their arrival.
__device__ __forceinline__ void bulk_copy(void* to, const void* from, int bytes,
                                          uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}

// Starts a copy for a whole block; `arrived` is for as many arrivals as there are such copies.
template <int, int>
__device__ __forceinline__ void start_block_copy(void* to, const void* from, int bytes,
                                                 uint64_t* arrived) {
    if (threadIdx.x > 0) return;
    barrier_expect_bytes(arrived, bytes);
    bulk_copy(to, from, bytes, arrived);
}

__device__ __forceinline__ void wait_for_block_copies(uint64_t* arrived) {
    barrier_wait(arrived, 0);
}

// Copies data that is read only once, so that the L2 cache evicts it first.
__device__ __forceinline__ void bulk_copy_once(void* to, const void* from, int bytes,
                                               uint64_t* barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(passing_through())
        : "memory");
}

// Copies data that is read only once to the same address in all blocks of a cluster; the barrier of
// each block counts the arrival.
template <int blocks>
__device__ __forceinline__ void bulk_copy_to_cluster(void* to, const void* from, int bytes,
                                                     uint64_t* barrier) {
    constexpr unsigned short all = (1 << blocks) - 1;
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        ".L2::cache_hint [%0], [%1], %2, [%3], %4, %5;" ::"r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"(all),
        "l"(passing_through())
        : "memory");
}

__device__ __forceinline__ int block_of_cluster() {
    int block;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(block));
    return block;
}

// Arrives at the barrier with the same address in block `block` of the cluster.
__device__ __forceinline__ void barrier_arrive_at(uint64_t* barrier, int block) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
        "}\n" ::"r"(shared_address(barrier)),
        "r"(block)
        : "memory");
}

// Waits until all threads of the cluster have come here.
template <int blocks>
__device__ __forceinline__ void meet() {
    if (blocks == 1)
        __syncthreads();
    else
        asm volatile(
            "barrier.cluster.arrive;\n"
            "barrier.cluster.wait;" ::
                : "memory");
}

// Copies bytes (a multiple of 16) from shared to global memory, after `fence_shared` and a barrier;
// the L2 cache evicts them first.
__device__ __forceinline__ void bulk_store(void* to, const void* from, int bytes) {
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to),
        "r"(shared_address(from)), "r"(bytes), "l"(passing_through())
        : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until the sources of this thread's bulk stores may be written again.
__device__ __forceinline__ void bulk_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ __forceinline__ void bulk_stores_done() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Adds one to a counter in global memory, once this thread's bulk stores are done.
__device__ __forceinline__ void count_stored(unsigned* counter) {
    bulk_stores_done();
    asm volatile(
        "fence.proxy.async.global;\n"
        "red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter)
        : "memory");
}

// Waits until a counter has reached `count`; bulk copies then see what was stored before.
__device__ __forceinline__ void wait_for_count(const unsigned* counter, unsigned count) {
    unsigned found;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(counter) : "memory");
    } while (found < count);
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

// Copies a tile of a warpgroup from shared to global memory.
__device__ __forceinline__ void store_tile(void* to, const void* from, int bytes) {
    if (threadIdx.x % 128 == 0) bulk_store(to, from, bytes);
}

// Orders this thread's writes to shared memory before bulk stores and matrix products that read it,
// and this thread's reads before bulk copies that write there.
__device__ __forceinline__ void fence_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Stores the four 8 x 8 matrices of a warp's rows and of 16 columns in a tile in shared memory. The
// compiler may move reads of memory across this: call `fence_shared` before the tile is read.
template <int columns>
__device__ __forceinline__ void store_matrices(uint32_t tile, int warp, int lane, int column,
                                               const uint32_t (&matrices)[4]) {
    const int block_row = 2 * warp + lane / 8 % 2, block = column / 8 + lane / 16;
    const uint32_t address = tile + (block_row * (columns / 8) + block) * 128 + lane % 8 * 16;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                 "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3]));
}

// ---- matrix products -----------------------------------------------------------------------

__device__ __forceinline__ void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void commit_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most `pending` of the committed groups are unfinished.
template <int pending>
__device__ __forceinline__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Tells the compiler that sums of finished products are read only from here on.
template <int count>
__device__ __forceinline__ void finished_sums(float* sums) {
#pragma unroll
    for (int i = 0; i < count; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// Describes a matrix of 16-bit numbers in shared memory as 8 x 8 blocks of 128 contiguous bytes
// (PTX: no swizzle). The strides, in bytes, lead to the next block along the summed and along the
// kept dimension. This holds for matrices whose blocks have rows along the summed dimension, such
// as right operands here, and for transposed left operands.
__device__ __forceinline__ uint64_t block_matrix(uint32_t address, int summed_stride,
                                                 int kept_stride) {
    return uint64_t((address & 0x3FFFF) >> 4) | uint64_t(summed_stride >> 4) << 16 |
           uint64_t(kept_stride >> 4) << 32;
}

// Describes the part of a matrix that begins `bytes` bytes after its start. The upper half of the
// descriptor stays the same; in C++, the compiler would compute it again.
__device__ __forceinline__ uint64_t part_of(uint64_t matrix, int bytes) {
    uint64_t part;
    asm("mov.b64 %0, {%1, %2};"
        : "=l"(part)
        : "r"(uint32_t(matrix) + (bytes >> 4)), "r"(uint32_t(matrix >> 32)));
    return part;
}

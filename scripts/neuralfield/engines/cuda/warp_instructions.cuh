// Instructions that C++ has no functions for: copies to shared memory that run in the background,
// and products of small fp16 matrices by a warp (cp.async, ldmatrix and mma of the PTX ISA). Before
// compute capability 8.0 there are only plain copies, and m16n8k8 instead of m16n8k16.
#pragma once

__device__ __forceinline__ unsigned int shared_address(const void* pointer) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(pointer));
}

// Starts a copy of 16 bytes to an address in shared memory, which bypasses registers and the
// first-level cache.
__device__ __forceinline__ void copy_16_bytes(unsigned int target, const void* source) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
}

__device__ __forceinline__ void copy_16_bytes(void* target, const void* source) {
#if __CUDA_ARCH__ >= 800
    copy_16_bytes(shared_address(target), source);
#else
    *static_cast<uint4*>(target) = *static_cast<const uint4*>(source);
#endif
}

// Commits the copies since the last group as a group.
__device__ __forceinline__ void end_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `pending` of this thread's groups are unfinished; the copies of other threads
// need a barrier after this.
template <int pending>
__device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

// Loads four 8 x 8 matrices of 16-bit numbers from shared memory; lane i gives the address of row
// i % 8 of matrix i / 8.
template <bool transposed>
__device__ __forceinline__ void load_matrices(unsigned int* matrices, unsigned int address) {
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                     : "r"(address)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                     : "r"(address)
                     : "memory");
}

// sums (16 x 8) += a (16 x 16) b (16 x 8), with sums in float32.
__device__ __forceinline__ void add_product(float* sums, const unsigned int* a, unsigned int b0,
                                            unsigned int b1) {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    const unsigned int b[2] = {b0, b1};
#pragma unroll
    for (int half = 0; half < 2; ++half)
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
            "{%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
}

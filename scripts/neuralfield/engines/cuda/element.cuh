// The type that activations and gradients are stored in, and loads and stores of 16 bytes of them,
// which convert from and to float32.
//
// Constants: MIXED (0: float32, 1: fp16).
#pragma once

#include <cuda_fp16.h>

#define THREADS 256  // of every block that works on groups

#if MIXED
typedef __half element;
#define GROUP 8
#else
typedef float element;
#define GROUP 4
#endif

#if MIXED
// Rounds to fp16 and clips to its largest number; NaN stays NaN, so that divergence is detected.
__device__ __forceinline__ __half2 saturated(float low, float high) {
#if __CUDA_ARCH__ >= 800
    const __half2 largest = __float2half2_rn(65504.0f), smallest = __float2half2_rn(-65504.0f);
    return __hmax2_nan(__hmin2_nan(__floats2half2_rn(low, high), largest), smallest);
#else
    low = low > 65504.0f ? 65504.0f : low;
    low = low < -65504.0f ? -65504.0f : low;
    high = high > 65504.0f ? 65504.0f : high;
    high = high < -65504.0f ? -65504.0f : high;
    return __floats2half2_rn(low, high);
#endif
}

__device__ __forceinline__ element to_element(float value) {
    return __low2half(saturated(value, value));
}
#else
__device__ __forceinline__ element to_element(float value) { return value; }
#endif

// FIXED: no thread of the kernel writes to the array, so that loads may move ahead of stores.
template <bool FIXED = false>
__device__ __forceinline__ void load_group(const element* source, float (&values)[GROUP]) {
    const uint4* const pointer = reinterpret_cast<const uint4*>(source);
    const uint4 words = FIXED ? __ldg(pointer) : *pointer;
#if MIXED
    const unsigned int word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&word[i]));
        values[2 * i] = pair.x;
        values[2 * i + 1] = pair.y;
    }
#else
    values[0] = __uint_as_float(words.x);
    values[1] = __uint_as_float(words.y);
    values[2] = __uint_as_float(words.z);
    values[3] = __uint_as_float(words.w);
#endif
}

// BOUNDED: the values are known to be within fp16's range.
template <bool BOUNDED = false>
__device__ __forceinline__ void store_group(element* target, const float (&values)[GROUP]) {
    unsigned int word[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#if MIXED
        const __half2 pair = BOUNDED ? __floats2half2_rn(values[2 * i], values[2 * i + 1])
                                     : saturated(values[2 * i], values[2 * i + 1]);
        word[i] = *reinterpret_cast<const unsigned int*>(&pair);
#else
        word[i] = __float_as_uint(values[i]);
#endif
    }
    *reinterpret_cast<uint4*>(target) = make_uint4(word[0], word[1], word[2], word[3]);
}

// Activations and their slopes. Twin: neuralfield/ops.py.
//
// Constants: ACTIVATION (0 sine, 1 tanh, 2 relu, 3 sigmoid), MIXED. A result that is stored as
// fp16 is made by the card's fast functions, whose error is far below fp16's.
#pragma once

#define SINE 0
#define TANH 1
#define RELU 2
#define SIGMOID 3

#if !MIXED && ACTIVATION == SINE
// Kept out of line: its slow path for huge arguments would be copied to every use.
__device__ __noinline__ float2 sine_and_cosine_of_large(float x) {
    float2 result;
    sincosf(x, &result.x, &result.y);
    return result;
}
#endif

__device__ __forceinline__ float2 sine_and_cosine(float x) {
#if MIXED
    // to [-pi, pi]: adding 1.5 * 2 ** 23 rounds to whole turns faster than rintf
    const float turns = fmaf(x, 0.159154943f, 12582912.0f) - 12582912.0f;
    x = fmaf(turns, -6.283185482f, x);
    return make_float2(__sinf(x), __cosf(x));
#elif ACTIVATION == SINE
    if (fabsf(x) > 30000.0f) return sine_and_cosine_of_large(x);
    // to [-pi / 4, pi / 4] by pi / 2 in three parts, then polynomials fitted to least largest error
    const float quarters = rintf(x * 0.636619772f);
    float r = fmaf(quarters, -1.570796371f, x);
    r = fmaf(quarters, 4.371138829e-08f, r);
    r = fmaf(quarters, 1.715124510e-15f, r);
    const float square = r * r;
    float sine = fmaf(square, -1.951665581e-04f, 8.332173544e-03f);
    sine = fmaf(sine, square, -1.666665487e-01f);
    sine = fmaf(sine * square, r, r);
    float cosine = fmaf(square, 2.443772991e-05f, -1.388736145e-03f);
    cosine = fmaf(cosine, square, 4.166664675e-02f);
    cosine = fmaf(cosine, square, -0.5f);
    cosine = fmaf(cosine, square, 1.0f);
    const int quadrant = int(quarters);
    float2 result = quadrant & 1 ? make_float2(cosine, sine) : make_float2(sine, cosine);
    if (quadrant & 2) result.x = -result.x;
    if ((quadrant + 1) & 2) result.y = -result.y;
    return result;
#else
    return make_float2(0.0f, 0.0f);
#endif
}

// The activation of z, and in `cosine` what a sine's slope is.
__device__ __forceinline__ float activation(float z, float& cosine) {
#if ACTIVATION == SINE
    const float2 both = sine_and_cosine(z);
    cosine = both.y;
    return both.x;
#elif ACTIVATION == TANH
#if MIXED
    return 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * z));
#else
    return tanhf(z);
#endif
#elif ACTIVATION == RELU
    return z < 0.0f ? 0.0f : z;  // fmaxf would hide a NaN
#else
#if MIXED
    return __fdividef(1.0f, 1.0f + __expf(-z));
#else
    return 1.0f / (1.0f + expf(-z));
#endif
#endif
}

// d activation / d z, from what was kept: a sine's cosine, or the activation itself.
__device__ __forceinline__ float activation_slope(float kept) {
#if ACTIVATION == SINE
    return kept;
#elif ACTIVATION == TANH
    return 1.0f - kept * kept;
#elif ACTIVATION == RELU
    return kept > 0.0f ? 1.0f : 0.0f;
#else
    return kept * (1.0f - kept);
#endif
}

// Activations and their derivatives. Reference implementation: nn/ops.py.
//
// Constants: ACTIVATION (for PRODUCT, see product.cuh), MIXED, for wavelets WAVELET_SCALE. Results
// that are stored as fp16 are computed by the GPU's fast functions, whose error is far below
// fp16's.
#pragma once

#define HAS_SINE (ACTIVATION == SINE || ACTIVATION == VARIABLE_SINE || ACTIVATION == GABOR)
#define IS_BOUNDED (ACTIVATION != RELU && ACTIVATION != GABOR)
#define HAS_BOUNDED_DERIVATIVES (ACTIVATION != VARIABLE_SINE && ACTIVATION != GABOR)

#if !MIXED && HAS_SINE
// Not inlined, because sincosf's slow path for huge arguments would be copied to every use.
__device__ __noinline__ float2 sine_and_cosine_of_large(float x) {
    float2 result;
    sincosf(x, &result.x, &result.y);
    return result;
}
#endif

__device__ __forceinline__ float2 sine_and_cosine(float x) {
#if MIXED
    // reduced to [-pi, pi]: adding 1.5 * 2 ** 23 rounds to whole turns faster than rintf
    const float turns = fmaf(x, 0.159154943f, 12582912.0f) - 12582912.0f;
    x = fmaf(turns, -6.283185482f, x);
    return make_float2(__sinf(x), __cosf(x));
#elif HAS_SINE
    if (fabsf(x) > 30000.0f) return sine_and_cosine_of_large(x);
    // reduced to [-pi / 4, pi / 4] with pi / 2 in three parts, then minimax polynomials
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

__device__ __forceinline__ float exponential(float x) {
#if MIXED
    return __expf(x);
#else
    return expf(x);
#endif
}

// Returns the activation of z, which is already multiplied by the layer's frequency, and sets its
// derivative if that is to be kept. The growth of a variable sine depends on z without the
// frequency.
__device__ __forceinline__ float activation(float z, float inverse_frequency, float& derivative) {
#if ACTIVATION == SINE
    const float2 both = sine_and_cosine(z);
    derivative = both.y;
    return both.x;
#elif ACTIVATION == VARIABLE_SINE
    const float growth = fmaf(fabsf(z), inverse_frequency, 1.0f);
    const float2 both = sine_and_cosine(z * growth);
    derivative = both.y * fmaf(2.0f, growth, -1.0f);
    return both.x;
#elif ACTIVATION == GAUSSIAN
    const float value = exponential(-z * z);
    derivative = -2.0f * z * value;
    return value;
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

// Returns d activation / d z from the kept number: the derivative itself, or the activation.
__device__ __forceinline__ float activation_derivative(float kept) {
#if KEEPS_DERIVATIVES
    return kept;
#elif ACTIVATION == TANH
    return 1.0f - kept * kept;
#elif ACTIVATION == RELU
    return kept > 0.0f ? 1.0f : 0.0f;
#else
    return kept * (1.0f - kept);
#endif
}

// Replaces z of neighbouring columns by their activations, and sets the derivatives to keep. For
// the wavelet exp(i z - (WAVELET_SCALE / frequency * |z|) ** 2), a pair of columns is a complex z.
template <int COUNT>
__device__ __forceinline__ void activate(float (&z)[COUNT], float inverse_frequency,
                                         float (&derivative)[COUNT]) {
#if ACTIVATION == GABOR
    const float narrowness = float(WAVELET_SCALE) * inverse_frequency;
    const float decay = narrowness * narrowness;
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        const float real = z[i], imaginary = z[i + 1];
        const float square = fmaf(real, real, imaginary * imaginary);
        const float size = exponential(-fmaf(decay, square, imaginary));
        const float2 both = sine_and_cosine(real);
        z[i] = size * both.y;
        z[i + 1] = size * both.x;
        derivative[i] = -2.0f * decay * real;
        derivative[i + 1] = fmaf(-2.0f * decay, imaginary, -1.0f);
    }
#else
#pragma unroll
    for (int i = 0; i < COUNT; ++i) z[i] = activation(z[i], inverse_frequency, derivative[i]);
#endif
}

// Gradients of neighbouring columns' activations -> gradients of their z, from the kept numbers and
// the values.
template <int COUNT>
__device__ __forceinline__ void differentiate(float (&gradient)[COUNT], const float (&kept)[COUNT],
                                              const float (&value)[COUNT]) {
#if ACTIVATION == GABOR
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        const float along = gradient[i] * value[i] + gradient[i + 1] * value[i + 1];
        const float across = gradient[i + 1] * value[i] - gradient[i] * value[i + 1];
        gradient[i] = fmaf(kept[i], along, across);
        gradient[i + 1] = kept[i + 1] * along;
    }
#else
#pragma unroll
    for (int i = 0; i < COUNT; ++i) gradient[i] *= activation_derivative(kept[i]);
#endif
}

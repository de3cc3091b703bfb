// The activations of all kernels and their derivatives. Reference implementation: nn/ops.py.
//
// Constants: ACTIVATION, MIXED (results are rounded to fp16, so that the GPU's fast functions are
// used, whose errors are about as large as the rounding), WAVELET_SCALE (of wavelets).
//
// An activation gets z already multiplied by the layer's frequency. The growth of a variable sine
// depends on z without it. The wavelet exp(i z - (WAVELET_SCALE / frequency * |z|) ** 2) is computed
// of two neighbouring columns, which are the real and the imaginary part of a complex z.
#pragma once

constexpr bool IS_BOUNDED = ACTIVATION != RELU;
constexpr bool HAS_BOUNDED_DERIVATIVES = ACTIVATION != VARIABLE_SINE && ACTIVATION != GABOR;

// ---- functions in the precision of the kernel ------------------------------------------------

#if MIXED
__device__ __forceinline__ float2 sine_and_cosine(float x) {
    return make_float2(__sinf(x), __cosf(x));
}

__device__ __forceinline__ float exponential(float x) { return __expf(x); }

__device__ __forceinline__ float quotient(float a, float b) { return __fdividef(a, b); }

__device__ __forceinline__ float tangent(float x) {
    float value;
    asm("tanh.approx.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}
#else
// Not inlined, because sincosf's slow path for huge arguments would be copied to every use.
__device__ __noinline__ float2 sine_and_cosine_of_large(float x) {
    float2 result;
    sincosf(x, &result.x, &result.y);
    return result;
}

__device__ __forceinline__ float2 sine_and_cosine(float x) {
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
}

__device__ __forceinline__ float exponential(float x) { return expf(x); }

__device__ __forceinline__ float quotient(float a, float b) { return a / b; }

__device__ __forceinline__ float tangent(float x) { return tanhf(x); }
#endif

// Returns NaN if x is NaN; fmaxf would hide that a training has diverged.
__device__ __forceinline__ float positive_part(float x) {
#if __CUDA_ARCH__ >= 800
    asm("max.NaN.f32 %0, %0, 0f00000000;" : "+f"(x));
    return x;
#else
    return x < 0.0f ? 0.0f : x;
#endif
}

// ---- activations -----------------------------------------------------------------------------

__device__ __forceinline__ float growth_of_sine(float z, float inverse_frequency) {
    return fmaf(fabsf(z), inverse_frequency, 1.0f);
}

__device__ __forceinline__ float activation(float z, float inverse_frequency) {
    if constexpr (ACTIVATION == SINE) return sine_and_cosine(z).x;
    if constexpr (ACTIVATION == VARIABLE_SINE)
        return sine_and_cosine(z * growth_of_sine(z, inverse_frequency)).x;
    if constexpr (ACTIVATION == GAUSSIAN) return exponential(-z * z);
    if constexpr (ACTIVATION == TANH) return tangent(z);
    if constexpr (ACTIVATION == RELU) return positive_part(z);
    return quotient(1.0f, 1.0f + exponential(-z));
}

// Returns the derivative with respect to z. Unless KEEPS_DERIVATIVES, it follows from the value.
__device__ __forceinline__ float derivative(float z, float value, float inverse_frequency) {
    if constexpr (ACTIVATION == SINE) return sine_and_cosine(z).y;
    if constexpr (ACTIVATION == VARIABLE_SINE) {
        const float growth = growth_of_sine(z, inverse_frequency);
        return sine_and_cosine(z * growth).y * fmaf(2.0f, growth, -1.0f);
    }
    if constexpr (ACTIVATION == GAUSSIAN) return -2.0f * z * value;
    if constexpr (ACTIVATION == TANH) return 1.0f - value * value;
    if constexpr (ACTIVATION == RELU) return value > 0.0f ? 1.0f : 0.0f;
    return value * (1.0f - value);
}

__device__ __forceinline__ float decay_of_wavelet(float inverse_frequency) {
    const float narrowness = float(WAVELET_SCALE) * inverse_frequency;
    return narrowness * narrowness;
}

// Returns the activations of two neighbouring columns.
__device__ __forceinline__ float2 activations(float2 z, float inverse_frequency) {
    if constexpr (ACTIVATION != GABOR)
        return make_float2(activation(z.x, inverse_frequency), activation(z.y, inverse_frequency));
    const float decay = decay_of_wavelet(inverse_frequency), square = fmaf(z.x, z.x, z.y * z.y);
#if MIXED
    // without the steps of __expf for results outside the range of fp16
    const float log2_e = 1.442695041f;
    float size;
    asm("ex2.approx.ftz.f32 %0, %1;"
        : "=f"(size)
        : "f"(fmaf(-log2_e * decay, square, -log2_e * z.y)));
#else
    const float size = expf(-fmaf(decay, square, z.y));
#endif
    const float2 both = sine_and_cosine(z.x);
    return make_float2(size * both.y, size * both.x);
}

// Returns the derivatives of two neighbouring columns; of a wavelet, factors of its derivatives.
__device__ __forceinline__ float2 derivatives(float2 z, float2 value, float inverse_frequency) {
    if constexpr (ACTIVATION != GABOR)
        return make_float2(derivative(z.x, value.x, inverse_frequency),
                           derivative(z.y, value.y, inverse_frequency));
    const float factor = -2.0f * decay_of_wavelet(inverse_frequency);
    return make_float2(factor * z.x, fmaf(factor, z.y, -1.0f));
}

// Gradients of two neighbouring columns' values -> gradients of their z.
__device__ __forceinline__ float2 gradients_before(float2 gradient, float2 derivatives,
                                                   float2 value) {
    if constexpr (ACTIVATION != GABOR)
        return make_float2(gradient.x * derivatives.x, gradient.y * derivatives.y);
    const float along = gradient.x * value.x + gradient.y * value.y;
    const float across = gradient.y * value.x - gradient.x * value.y;
    return make_float2(fmaf(derivatives.x, along, across), derivatives.y * along);
}

// ---- groups of columns -----------------------------------------------------------------------

// Replaces z of neighbouring columns by their activations, and sets the derivatives.
template <int COUNT>
__device__ __forceinline__ void activate(float (&z)[COUNT], float inverse_frequency,
                                         float (&derivative)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        const float2 pair = make_float2(z[i], z[i + 1]), value = activations(pair, inverse_frequency);
        const float2 factors = derivatives(pair, value, inverse_frequency);
        z[i] = value.x, z[i + 1] = value.y;
        derivative[i] = factors.x, derivative[i + 1] = factors.y;
    }
}

// Gradients of neighbouring columns' activations -> gradients of their z, from the derivatives if
// they were kept, else from the activations, and from the values.
template <int COUNT>
__device__ __forceinline__ void differentiate(float (&gradient)[COUNT], const float (&kept)[COUNT],
                                              const float (&value)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        float2 factors = make_float2(kept[i], kept[i + 1]);
        if (!KEEPS_DERIVATIVES) factors = derivatives(factors, factors, 1.0f);
        const float2 before = gradients_before(make_float2(gradient[i], gradient[i + 1]), factors,
                                               make_float2(value[i], value[i + 1]));
        gradient[i] = before.x, gradient[i + 1] = before.y;
    }
}

// The product of the FACTORS parts of a layer's affine output. Reference implementation:
// product_of_parts in nn/ops.py.
//
// Constants: FACTORS, MIXED. Parts lie side by side in a row, each with as many columns as the
// product.
#pragma once

#include "../element.cuh"

// Stores a group of products in `values`, and their factors, if they are kept (not null), in
// `factors`, which is the place of the first part's group.
__device__ __forceinline__ void put_product(const float (&z)[FACTORS][GROUP], element* values,
                                            element* factors, int stride) {
    float product[GROUP];
#pragma unroll
    for (int i = 0; i < GROUP; ++i) product[i] = z[0][i];
#pragma unroll
    for (int part = 1; part < FACTORS; ++part)
#pragma unroll
        for (int i = 0; i < GROUP; ++i) product[i] *= z[part][i];
    store_group(values, product);
    if (!factors) return;
#pragma unroll
    for (int part = 0; part < FACTORS; ++part) store_group(factors + part * stride, z[part]);
}

// Gradients of a group of products -> gradients of their factors: multiplied by all other factors.
__device__ __forceinline__ void put_gradients_of_factors(const float (&gradient)[GROUP],
                                                         const element* factors, element* gradients,
                                                         int stride) {
    float factor[FACTORS][GROUP], before[FACTORS][GROUP], after[GROUP];
#pragma unroll
    for (int part = 0; part < FACTORS; ++part) {
        load_group<true>(factors + part * stride, factor[part]);
#pragma unroll
        for (int i = 0; i < GROUP; ++i)
            before[part][i] = part ? before[part - 1][i] * factor[part - 1][i] : 1.0f;
    }
#pragma unroll
    for (int i = 0; i < GROUP; ++i) after[i] = gradient[i];
#pragma unroll
    for (int part = FACTORS - 1; part >= 0; --part) {
        float own[GROUP];
#pragma unroll
        for (int i = 0; i < GROUP; ++i) {
            own[i] = before[part][i] * after[i];
            after[i] *= factor[part][i];
        }
        store_group(gradients + part * stride, own);
    }
}

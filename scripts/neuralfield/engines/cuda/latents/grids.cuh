// What all kernels of latents share: the layout of grids, and the numbers of a step.
//
// Constants: GRIDS, HIDDEN, CHANNELS, INPUTS (of the rate model), NEIGHBOURS (of them, those in the
// same grid), OFFSETS (rows and columns to the neighbours), SURROUNDINGS (sums of latents around a
// pixel), AROUND (number of the sum, rows and columns of each of their AROUND_COUNT latents), and
// those of each file.
#pragma once

#define FEATURES (INPUTS - NEIGHBOURS)
#define PIXEL_INPUTS (GRIDS + SURROUNDINGS)  // of the synthesis
#define INPUT_PAIRS ((PIXEL_INPUTS + 2) / 2)  // with the 1 for biases

// A grid, the finest first. Arrays of latents have a border of zeros around each grid.
struct Grid {
    long long rows, columns, stride;
    long long start;        // of the first latent, in arrays with borders
    long long parameter;    // of the first latent, in arrays without
    long long copy;         // of the first latent, in arrays of copies, see enlargement.cu
    long long first_piece;  // pieces are 16 latents of a row
    long long pieces;       // of a row
    long long features[4];  // start of gradients for the grids after this, see rate.cu
};

// The numbers of a step; see `latent_engine.py`.
struct Step {
    float temperature, sigma;  // if the temperature is 0, latents are whole
    unsigned int key;
    float rate, inverse_correction2;  // of Adam
    float bit_scale, pixel_scale;     // factors on gradients
    float bit_weight;
};

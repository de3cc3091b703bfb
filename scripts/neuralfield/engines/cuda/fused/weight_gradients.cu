// Gradients of weights and biases: sums over all points of (values of the layer before) x
// (gradients), which wide_pass.cu has stored in global memory.
//
// A block works on one job: up to 128 rows of one layer's matrix, over some of the tiles. From the
// tiles that were written last, which the L2 cache still has, it goes on to older ones.
// Partial sums of the jobs are added up in a fixed order by update.cu. The two back-ends divide a
// job among a block's warps in their own ways.
//
// Constants: WEIGHT_STAGES, SHAPES, SHAPE_ROWS (at most 128), SHAPE_COLUMNS (both padded to 16),
// SHAPE_ALTERNATES (whether warpgroups take tiles in turn, instead of each having half of the
// matrix's rows), and those of products.cuh.
#include "../dependent_launch.cuh"
#include "products.cuh"

constexpr int rows_of[SHAPES] = SHAPE_ROWS;
constexpr int columns_of[SHAPES] = SHAPE_COLUMNS;
constexpr bool alternates[SHAPES] = SHAPE_ALTERNATES;
constexpr int TILE_POINTS = 64;

__host__ __device__ constexpr int largest_stage() {
    int largest = 0;
    for (int shape = 0; shape < SHAPES; ++shape) {
        int bytes = 2 * TILE_POINTS * (rows_of[shape] + columns_of[shape]);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

constexpr int STAGE_BYTES = largest_stage();

// newest, newest - step, ...
struct Tiles {
    int newest, count, step;
};

struct Job {
    const char* values;  // tiles of the layer's input, all its columns
    const char* gradients;
    float* weight_partial;  // [rows][columns]; one for each warpgroup if these alternate
    float* bias_partial;    // [columns], likewise; null: this job sums no bias
    int shape, value_columns, first_column;
    Tiles full, last;  // tiles of the full waves, and of the last wave
    int padding;

    __device__ __forceinline__ int count() const { return full.count + last.count; }
};

template <int place>
struct Shape {
    static constexpr int rows = rows_of[place], columns = columns_of[place];
    static constexpr bool alternate = alternates[place];
};

// Calls `work` with the shape of a job.
template <int place = 0, typename Work>
__device__ __forceinline__ void for_shape(const Job& job, const Work& work) {
    if constexpr (place < SHAPES) {
        if (job.shape == place)
            work(Shape<place>());
        else
            for_shape<place + 1>(job, work);
    }
}

#if WGMMA
#include "weight_gradients_wgmma.cuh"
#else
#include "weight_gradients_mma.cuh"
#endif

// tenon for the GPU, for translation units that nvcc compiles.
#pragma once
#include "tenon/core/require.h"  // first: it reports a missing -std=c++20

#include "tenon/device/cuda.cuh"
#include "tenon/ops/cuda/all.cuh"
#include "tenon/tenon.h"

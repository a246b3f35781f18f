// tenon with the GPU: for translation units that nvcc compiles.
#pragma once
#include "tenon/device/cuda.cuh"
#include "tenon/ops/cuda/all.cuh"
#include "tenon/tenon.h"

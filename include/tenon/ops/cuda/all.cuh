// Every op on an NVIDIA GPU.
#pragma once
#include "tenon/ops/cuda/any_element.cuh"
#include "tenon/ops/cuda/attention.cuh"
#include "tenon/ops/cuda/attention_tensor.cuh"
#include "tenon/ops/cuda/draw.cuh"
#include "tenon/ops/cuda/head.cuh"
#include "tenon/ops/cuda/linear.cuh"
#include "tenon/ops/cuda/low_rank.cuh"
#include "tenon/ops/cuda/mixture.cuh"
#include "tenon/ops/cuda/rounded_attention.cuh"
#include "tenon/ops/cuda/rows.cuh"
#include "tenon/ops/cuda/store_kv.cuh"

// The host code of ops/cpu/; its kernels are in kernels_*.cpp.
#include "tenon/ops/cpu/change_tables-inl.h"
#include "tenon/ops/cpu/dot_features-inl.h"
#include "tenon/ops/cpu/fused_lora_epilogue-inl.h"
#include "tenon/ops/cpu/kv_prefetch-inl.h"
#include "tenon/ops/cpu/low_rank-inl.h"
#include "tenon/ops/cpu/panel_work-inl.h"

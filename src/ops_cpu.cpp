// The host code of ops/cpu/; its kernels are in kernels_*.cpp.
#include "tenon/ops/cpu/ask_kv-inl.h"
#include "tenon/ops/cpu/dot_features-inl.h"
#include "tenon/ops/cpu/low_rank-inl.h"
#include "tenon/ops/cpu/panel_updates-inl.h"
#include "tenon/ops/cpu/panel_work-inl.h"

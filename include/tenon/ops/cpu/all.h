// Every op on the CPU.
#pragma once
#include "tenon/ops/cpu/attention.h"
#include "tenon/ops/cpu/copy_blocks.h"
#include "tenon/ops/cpu/embed.h"
#include "tenon/ops/cpu/gate.h"
#include "tenon/ops/cpu/gather_rows.h"
#include "tenon/ops/cpu/head.h"
#include "tenon/ops/cpu/linear.h"
#include "tenon/ops/cpu/low_rank.h"
#include "tenon/ops/cpu/mixture.h"
#include "tenon/ops/cpu/norm.h"
#include "tenon/ops/cpu/rotary.h"
#include "tenon/ops/cpu/store_kv.h"

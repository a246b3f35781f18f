// The inner loops of the CPU for every instruction set: the engines of this program refer to these.
#include "tenon/ops/cpu/kernels.h"

template const tenon::cpu::Kernels& tenon::cpu::kernels_for<>(tenon::Isa isa);
template const tenon::cpu::LowRankKernels& tenon::cpu::low_rank_kernels_for<>(tenon::Isa isa, tenon::FactorType type);
template const tenon::cpu::AttentionKernels<float>& tenon::cpu::attention_kernels_for<float>(tenon::Isa isa);
template const tenon::cpu::PanelKernels<tenon::CodePanels<float>>& tenon::cpu::panel_kernels_for<tenon::CodePanels<float>>(
    tenon::Isa isa);

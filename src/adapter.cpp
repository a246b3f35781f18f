// The host code of adapter/.
#include "tenon/adapter/admission_queue-inl.h"
#include "tenon/adapter/changes-inl.h"
#include "tenon/adapter/root-inl.h"
#include "tenon/adapter/store.h"
#include "tenon/device/cpu.h"

namespace tenon {

template class AdapterStore<Cpu>;
template class ResidentAdapter<Cpu>;

}  // namespace tenon

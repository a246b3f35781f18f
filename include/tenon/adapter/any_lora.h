// An adapter policy that is chosen at run time, for programs that take it as an option.
#pragma once
#include "tenon/adapter/gathered.h"
#include "tenon/adapter/looped.h"
#include "tenon/adapter/segmented.h"

namespace tenon {

/// Dispatches to SegmentedLoRA, GatheredLoRA or LoopedLoRA. It also accepts adapters that are merged at load.
class AnyLoRA {
 public:
  enum class Kind { segmented, gathered, looped };
  static constexpr bool adds_at_runtime = true, merges_at_load = true;

  AnyLoRA() = default;
  explicit AnyLoRA(Kind kind) : kind_(kind) {}

  void arrange(std::span<const AdapterSet* const> rows, AdapterGroups& out) const {
    switch (kind_) {
      case Kind::segmented:
        return SegmentedLoRA{}.arrange(rows, out);
      case Kind::gathered:
        return GatheredLoRA{}.arrange(rows, out);
      case Kind::looped:
        return LoopedLoRA{}.arrange(rows, out);
    }
  }

 private:
  Kind kind_ = Kind::segmented;
};
static_assert(AdapterPolicy<AnyLoRA>);

}  // namespace tenon

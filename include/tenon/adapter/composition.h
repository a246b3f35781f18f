// A composition: several adapters as one set, each update's scale multiplied by its adapter's weight.
#pragma once
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/adapter/resident.h"
#include "tenon/core/request.h"
#include "tenon/io/file.h"

namespace tenon {

namespace detail {

inline std::string hex(std::uint32_t bits) {
  char text[9];
  const auto end = std::to_chars(text, text + 8, bits, 16).ptr;
  return {text, end};
}

// Whether the adapter can be used so. alone: as the only one; beyond: ResidentAdapter::beyond_updates.
inline void require_sum(const AdapterUse& use, bool alone, bool activated, const std::string& beyond) {
  const auto refuse = [&](const std::string& what) {  // the name may be a path
    throw Error(Error::Kind::unsupported,
                "adapter " + printable(std::filesystem::path(use.name).filename().string(), 60), what);
  };
  if (!alone && activated)
    refuse("acts from its alora_invocation_tokens on, and cannot be added to other adapters; use it alone");
  if ((!alone || use.weight != 1) && !beyond.empty())
    refuse(beyond +
           ": it is more than low-rank updates of linears, and cannot be added to other adapters or take a "
           "weight; use it alone");
}

}  // namespace detail

/// Several adapters as one set of updates. It shares ownership of the adapters; their factors are not copied.
template <DevicePolicy D>
struct Composition {
  std::vector<std::shared_ptr<const ResidentAdapter<D>>> adapters;
  UpdateTable<D> table;
};

/// The compositions that leases hold, so that requests for the same one share it. Thread-safe.
template <DevicePolicy D>
class Compositions {
 public:
  using Handle = std::shared_ptr<const Composition<D>>;

  /// The composition of `adapters`, with the weights of `uses`, entry by entry. Builds it on a device of its own if no
  /// lease holds it. `identity` names the adapters and their weights. Error invalid_request if weight x scale is not
  /// finite in float32.
  Handle get(const std::string& identity, std::span<const AdapterUse> uses,
             std::vector<std::shared_ptr<const ResidentAdapter<D>>> adapters, const std::function<D()>& make_device) {
    {
      std::lock_guard lock(mutex_);
      if (Handle found = known(identity)) return found;
    }
    const auto by_place = weighted(uses, adapters);
    D device = make_device();
    auto made =
        std::make_shared<const Composition<D>>(Composition<D>{std::move(adapters), UpdateTable<D>(device, by_place)});
    device.synchronize();
    std::lock_guard lock(mutex_);
    if (Handle found = known(identity)) return found;  // another thread was faster: equal adapters have equal pointers
    std::erase_if(by_identity_, [](const auto& each) { return each.second.expired(); });
    by_identity_[identity] = made;
    return made;
  }

 private:
  Handle known(const std::string& identity) const {
    const auto found = by_identity_.find(identity);
    return found == by_identity_.end() ? nullptr : found->second.lock();
  }

  static std::vector<std::vector<LowRank>> weighted(
      std::span<const AdapterUse> uses, std::span<const std::shared_ptr<const ResidentAdapter<D>>> adapters) {
    std::vector<std::vector<LowRank>> by_place(adapters.front()->by_place().size());
    for (std::size_t i = 0; i < adapters.size(); ++i) {
      for (std::size_t place = 0; place < by_place.size(); ++place) {
        for (LowRank update : adapters[i]->by_place()[place]) {
          update.scale = static_cast<float>(static_cast<double>(update.scale) * static_cast<double>(uses[i].weight));
          detail::require(std::isfinite(update.scale), "adapter", "its weight times its scale is beyond float32");
          by_place[place].push_back(update);
        }
      }
    }
    return by_place;
  }

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Composition<D>>> by_identity_;
};

}  // namespace tenon

// A step, and where the device keeps the tokens that it picks itself.
#pragma once
#include "tenon/engine/assembled_step.h"
#include "tenon/ops/args.h"

namespace tenon {

namespace detail {
struct NoLater {};
template <class D, class HeadView>
struct LaterOf {
  using type = NoLater;
};
template <class D, class HeadView>
requires PicksAhead<D, HeadView>
struct LaterOf<D, HeadView> {
  using type = typename D::Later;
};
}  // namespace detail

/// A step on a device.
template <class DeviceP, class HeadView>
struct LaunchedStep : AssembledStep {
  typename detail::LaterOf<DeviceP, HeadView>::type picks;  ///< [rows.size()] TokenId where picks_ahead
};

}  // namespace tenon

// Running ahead: a device that picks tokens itself gets the next step before this step's tokens reach the host.
#pragma once
#include <exception>
#include <utility>

#include "tenon/engine/active_requests.h"
#include "tenon/engine/launched_step.h"
#include "tenon/schedule/sequence_queue.h"

namespace tenon {

/// The steps in flight: the current one, whose tokens the host takes, and the next one, which may be launched already.
template <class DeviceP, class HeadView>
class RunAhead {
 public:
  using Step = LaunchedStep<DeviceP, HeadView>;

  Step& current() { return current_; }
  Step& next() { return next_; }  ///< a launch fills it

  /// The next step, filled by now, becomes the current one.
  void advance() { std::swap(current_, next_); }

  /// Likewise, where launch() has launched it already; false where it has not. Rows whose sequences have ended or left
  /// the cache since then are gone. Throws, once, what the launch threw.
  bool take_launched(const SequenceTable& queue, const ActiveRequests& active);

  /// Launches the next step. In the queue kUnknownToken stands for each token that the current step has picked.
  /// launch(): false where nothing is to run; what it throws waits for take_launched(), for the current step goes on.
  template <class Launch>
  bool launch(SequenceQueue& queue, Launch&& launch);

  /// Forgets a launched step: its sequences are planned again.
  void drop() { launched_ = false; }

  /// Forgets a launched step and its failure: no request is left.
  void reset();

 private:
  Step current_, next_;
  bool launched_ = false;       // next_ is
  std::exception_ptr failure_;  // of the last launch
};

// Members are defined outside the class, so they are not inline: extern templates (engine/instances.h) then prevent
// another instance in each unit.
template <class DeviceP, class HeadView>
bool RunAhead<DeviceP, HeadView>::take_launched(const SequenceTable& queue, const ActiveRequests& active) {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  if (!std::exchange(launched_, false)) return false;
  advance();
  current_.forget_gone(queue, active);
  return true;
}

template <class DeviceP, class HeadView>
template <class Launch>
bool RunAhead<DeviceP, HeadView>::launch(SequenceQueue& queue, Launch&& launch) {
  for (const LogitRow& row : current_.rows) {
    if (row.pick) queue.append(row.seq, kUnknownToken);
  }
  try {
    launched_ = launch();
  } catch (...) {
    failure_ = std::current_exception();
  }
  return launched_;
}

template <class DeviceP, class HeadView>
void RunAhead<DeviceP, HeadView>::reset() {
  launched_ = false;
  failure_ = nullptr;
}

}  // namespace tenon

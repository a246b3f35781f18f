// An engine for the family that a model folder holds: config.json chooses among the families that were compiled in.
#pragma once
#include <memory>
#include <utility>

#include "tenon/engine/any_engine.h"
#include "tenon/engine/engine.h"
#include "tenon/model/any_family.h"
#include "tenon/model/load.h"

namespace tenon {

/// any_model<Cache<WindowKV>>(load_checkpoint(folder), EngineOptions{...}). The arguments after the files are those of
/// Engine's constructor. One engine type is compiled for all families. Error unsupported for a family that is not in
/// the list.
template <class... Choices, ModelTraits... Models, class... Arguments>
std::unique_ptr<AnyEngine> any_model(ModelList<Models...>, const ModelFiles& files, Arguments&&... arguments) {
  using E = Engine<AnyFamily<ModelList<Models...>>, Choices...>;
  return std::make_unique<EngineBox<E>>(files, std::forward<Arguments>(arguments)...);
}

/// Likewise, with all built-in families.
template <class... Choices, class... Arguments>
std::unique_ptr<AnyEngine> any_model(const ModelFiles& files, Arguments&&... arguments) {
  return any_model<Choices...>(BuiltInModels{}, files, std::forward<Arguments>(arguments)...);
}

}  // namespace tenon

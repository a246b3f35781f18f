// An engine for the family that a model folder holds: config.json chooses among the families that were compiled in.
#pragma once
#include <memory>
#include <utility>

#include "tenon/engine/any_engine.h"
#include "tenon/engine/engine.h"
#include "tenon/model/load.h"
#include "tenon/model/with_model.h"

namespace tenon {

/// any_model<Cache<WindowKV>>(load_checkpoint(folder), EngineOptions{...}) compiles one engine type for each family.
/// arguments: those of Engine's constructor after the files. Error unsupported where the family is none of these.
template <class... Choices, ModelTraits... Models, class... Arguments>
std::unique_ptr<AnyEngine> any_model(ModelList<Models...> families, const ModelFiles& files, Arguments&&... arguments) {
  return with_model(families, model_type_of(files), [&](auto family) -> std::unique_ptr<AnyEngine> {
    using E = Engine<decltype(family), Choices...>;
    return std::make_unique<EngineBox<E>>(files, std::forward<Arguments>(arguments)...);
  });
}

/// Likewise, with all built-in families.
template <class... Choices, class... Arguments>
std::unique_ptr<AnyEngine> any_model(const ModelFiles& files, Arguments&&... arguments) {
  return any_model<Choices...>(BuiltInModels{}, files, std::forward<Arguments>(arguments)...);
}

}  // namespace tenon

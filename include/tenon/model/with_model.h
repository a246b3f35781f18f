// Selects the family of a model by the model_type of its config.json.
#pragma once
#include <string>
#include <string_view>

#include "tenon/checkpoint/config.h"
#include "tenon/core/error.h"
#include "tenon/model/bloom.h"
#include "tenon/model/gpt2.h"
#include "tenon/model/gpt_bigcode.h"
#include "tenon/model/llama.h"
#include "tenon/model/mistral.h"

namespace tenon {

/// A list of families.
template <ModelTraits... Models>
struct ModelList {};

/// The families of the library. Append your own: ModelList<MyFamily, Llama, ...>.
using BuiltInModels = ModelList<Gpt2, GptBigCode, Llama, Mistral, Bloom>;

namespace detail {

template <class... Models>
[[noreturn]] void refuse_model_type(std::string_view model_type) {
  std::string list;
  for (const std::string_view known : {std::string_view(Models::model_type)...}) {
    list += (list.empty() ? "" : ", ") + std::string(known);
  }
  throw Error(Error::Kind::unsupported, "config.json: model_type",
              "\"" + printable(model_type, 60) + "\" is not supported; supported: " + list);
}

}  // namespace detail

/// Returns body(Family{}) for the family of that model_type. The return type must be the same for all families. Error
/// unsupported, with the list of supported types.
template <class Body, ModelTraits First, ModelTraits... Rest>
auto with_model(ModelList<First, Rest...>, std::string_view model_type, Body&& body) -> decltype(body(First{})) {
  if (model_type == First::model_type) return body(First{});
  if constexpr (sizeof...(Rest) > 0) {
    const bool known = ((model_type == Rest::model_type) || ...);
    if (known) return with_model(ModelList<Rest...>{}, model_type, body);
  }
  detail::refuse_model_type<First, Rest...>(model_type);
}

}  // namespace tenon

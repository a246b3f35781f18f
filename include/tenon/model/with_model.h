// Selects the family of a model by the model_type of its config.json.
#pragma once
#include <string>
#include <string_view>

#include "tenon/checkpoint/config.h"
#include "tenon/core/error.h"
#include "tenon/model/bloom.h"
#include "tenon/model/cohere.h"
#include "tenon/model/configure.h"
#include "tenon/model/ernie.h"
#include "tenon/model/exaone4.h"
#include "tenon/model/experts.h"
#include "tenon/model/falcon.h"
#include "tenon/model/gemma.h"
#include "tenon/model/gpt2.h"
#include "tenon/model/gpt_bigcode.h"
#include "tenon/model/gpt_neo.h"
#include "tenon/model/gpt_neox.h"
#include "tenon/model/gptj.h"
#include "tenon/model/granite.h"
#include "tenon/model/llama.h"
#include "tenon/model/mistral.h"
#include "tenon/model/mpt.h"
#include "tenon/model/olmo.h"
#include "tenon/model/opt.h"
#include "tenon/model/phi.h"
#include "tenon/model/qwen.h"
#include "tenon/model/smollm3.h"
#include "tenon/model/stablelm.h"
#include "tenon/model/starcoder2.h"

namespace tenon {

/// A list of families.
template <ModelTraits... Models>
struct ModelList {};

/// The families of the library. Append your own: ModelList<MyFamily, Llama, ...>.
using BuiltInModels =
    ModelList<Gpt2, GptBigCode, Llama, Mistral, Bloom, Qwen2, Qwen3, SmolLm3, Granite, Gemma, Gemma2, Gemma3, Olmo,
              Olmo2, Phi, Phi3, StableLm, StarCoder2, GptNeoX, GptJ, CodeGen, Opt, Falcon, Mpt, Cohere, GptNeo,
              GraniteHybrid, Ernie45, Exaone4, Mixtral, OlMoE, Qwen3Moe, GptOss>;

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

/// The family that config.json names, of a list: one type of engine runs them all.
template <class Families = BuiltInModels>
struct AnyFamily;

template <ModelTraits... Models>
struct AnyFamily<ModelList<Models...>> {
  static constexpr std::string_view model_type = "any";
  static constexpr std::string_view name_prefix = "";  ///< see name_prefix_of()

  static ModelConfig configure(const ConfigFile& file) {
    return of(file.model_type(), [&](auto family) { return decltype(family)::configure(file); });
  }
  static DecoderSpec tensors(const ModelConfig& c) {
    return of(c.model_type, [&](auto family) { return decltype(family)::tensors(c); });
  }
  /// Returns body(Family{}) for the family of that model_type.
  template <class Body>
  static auto of(std::string_view type, Body&& body) {
    return with_model(ModelList<Models...>{}, type, body);
  }
};

/// A list of families, of which config.json names one.
template <class M>
concept ChoosesFamily = ModelTraits<M> && requires(std::string_view model_type) {
  M::of(model_type, [](auto) { return 0; });
};

/// The tensors of the model, with its classification head.
template <ModelTraits Model>
DecoderSpec tensors_of(const ModelConfig& c) {
  DecoderSpec spec = Model::tensors(c);
  add_classifier(c, spec);
  return spec;
}

/// The prefix that tensor names may have in the family of `c`.
template <ModelTraits Model>
std::string_view name_prefix_of(const ModelConfig& c) {
  if constexpr (ChoosesFamily<Model>)
    return Model::of(c.model_type, [](auto family) -> std::string_view { return decltype(family)::name_prefix; });
  else
    return Model::name_prefix;
}

}  // namespace tenon

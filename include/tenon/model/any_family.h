// Selects the family of a model by the model_type of its config.json.
#pragma once
#include <array>
#include <concepts>
#include <span>
#include <string_view>

#include "tenon/checkpoint/config.h"
#include "tenon/model/arcee.h"
#include "tenon/model/bloom.h"
#include "tenon/model/cohere.h"
#include "tenon/model/configure.h"
#include "tenon/model/ernie.h"
#include "tenon/model/exaone4.h"
#include "tenon/model/experts.h"
#include "tenon/model/falcon.h"
#include "tenon/model/files.h"
#include "tenon/model/gemma.h"
#include "tenon/model/glm.h"
#include "tenon/model/gpt2.h"
#include "tenon/model/gpt_bigcode.h"
#include "tenon/model/gpt_neo.h"
#include "tenon/model/gpt_neox.h"
#include "tenon/model/gptj.h"
#include "tenon/model/granite.h"
#include "tenon/model/helium.h"
#include "tenon/model/hunyuan.h"
#include "tenon/model/lfm2.h"
#include "tenon/model/llama.h"
#include "tenon/model/mistral.h"
#include "tenon/model/mpt.h"
#include "tenon/model/nemotron.h"
#include "tenon/model/olmo.h"
#include "tenon/model/opt.h"
#include "tenon/model/phi.h"
#include "tenon/model/qwen.h"
#include "tenon/model/smollm3.h"
#include "tenon/model/smolvlm.h"
#include "tenon/model/stablelm.h"
#include "tenon/model/starcoder2.h"
#include "tenon/model/traits.h"

namespace tenon {

/// A list of families. It converts to a span of their values, which live as long as the program.
template <ModelTraits... Models>
struct ModelList {
  static constexpr std::array<Family, sizeof...(Models)> families = {family_of<Models>...};
  constexpr operator std::span<const Family>() const { return families; }
};

/// The families of the library. Append your own: ModelList<MyFamily, Llama, ...>.
using BuiltInModels =
    ModelList<Gpt2, GptBigCode, Llama, Mistral, Bloom, Qwen2, Qwen3, SmolLm3, Granite, Gemma, Gemma2, Gemma3, Olmo,
              Olmo2, Phi, Phi3, StableLm, StarCoder2, GptNeoX, GptJ, CodeGen, Opt, Falcon, Mpt, Cohere, GptNeo,
              GraniteHybrid, Ernie45, Exaone4, Mixtral, OlMoE, Qwen3Moe, GptOss, Ministral, Olmo3, Cohere2, Glm, Glm4,
              Nemotron, Arcee, Helium, Gemma3WithImages, Mistral3, Qwen2Vl, Qwen25Vl, Qwen3Vl, SmolVlm, Idefics3,
              GraniteMoe, HunYuanDense, Ministral3, Lfm2, Qwen2Moe, Lfm2Moe, Ernie45Moe>;

/// The family of that model_type: an element of `families`, which must live as long. Error unsupported, with the list
/// of supported types.
const Family& find_family(std::span<const Family> families, std::string_view model_type);

/// The family that config.json names, of a list: one type of engine runs them all.
template <class Families = BuiltInModels>
struct AnyFamily;

template <ModelTraits... Models>
struct AnyFamily<ModelList<Models...>> {
  using Families = ModelList<Models...>;
  static constexpr std::string_view model_type = "any";
  static constexpr std::string_view name_prefix = "";  ///< not read: that of family()

  /// The family of that model_type.
  static const Family& family(std::string_view type) { return find_family(Families{}, type); }
  static ModelConfig configure(const ConfigFile& file) { return family(file.model_type()).configure(file); }
  static DecoderSpec tensors(const ModelConfig& c) { return family(c.model_type).tensors(c); }
};

/// A list of families, of which config.json names one.
template <class M>
concept ChoosesFamily = ModelTraits<M> && requires(std::string_view model_type) {
  typename M::Families;
  { M::family(model_type) } -> std::same_as<const Family&>;
};

/// The family of a model: the type itself, or the one that AnyFamily chooses by the model_type of the configuration.
template <ModelTraits Model>
const Family& family_for([[maybe_unused]] const ModelConfig& config) {
  if constexpr (ChoosesFamily<Model>)
    return Model::family(config.model_type);
  else
    return family_of<Model>;
}
/// Likewise, by that of the files.
template <ModelTraits Model>
const Family& family_for([[maybe_unused]] const ModelFiles& files) {
  if constexpr (ChoosesFamily<Model>)
    return Model::family(model_type_of(files));
  else
    return family_of<Model>;
}

/// The tensors of a model of the family, with its classification head.
DecoderSpec tensors_of(const Family& family, const ModelConfig& c);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/any_family-inl.h"
#endif

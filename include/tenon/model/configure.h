// Helpers with which the families read config.json. Every field that changes the output is read or refused. The other
// fields (dropout, initialisation, summaries) act in training or in transformers' own caches.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "tenon/checkpoint/config.h"
#include "tenon/model/config.h"
#include "tenon/model/parts.h"

namespace tenon {

/// The largest width of a row, in elements. It keeps every offset within a row far from 2^31.
inline constexpr int kLargestWidth = 1 << 20;

/// The one of a field's names that the file has (transformers' attribute_map); the first name if it has none. Error if
/// two of them differ in value.
std::string one_name(const Fields& fields, std::initializer_list<const char*> names);

/// A positive field of at most kLargestWidth.
int width_field(const Fields& fields, const std::string& name);

/// The width of the MLP: field `name`, or 4 x `width` if it is missing. `hidden` names the field of `width` in errors.
int inner_field(const Fields& fields, const std::string& name, const std::string& hidden, int width);

/// For families whose attention has no window, after positions is read: refuses a sliding_window that is shorter than
/// the longest text. Caches of transformers apply the field in every family: they drop the keys before the window. A
/// longer one becomes most_positions. The field has no effect where layer_types names full layers alone.
void refuse_window(const Fields& fields, ModelConfig& c);

/// Refuses "architectures" that name none of `known`, nor the ForSequenceClassification of a Model in it. Other heads
/// have tensors of their own, which would be ignored. An empty list and any ...ForCausalLM or ...LMHeadModel pass:
/// AutoModelForCausalLM goes by model_type alone, and old files have names such as LLaMAForCausalLM.
void check_architectures(const Fields& fields, std::initializer_list<std::string_view> known);

/// The activation that field `name` names; `fallback` if it is missing.
Activation activation_field(const Fields& fields, const std::string& name, std::string_view fallback);

/// Refuses a configuration whose kinds of norms, positions or MLP are not those of the tensors: made by hand, for
/// random weights, of another family's switches. Error invalid_request that names the switch.
void check_switches(const DecoderSpec& spec, const ModelConfig& c);

/// The width of a head: c.hidden / c.heads, which must be whole. The fields are named in errors.
int width_of_heads(const Fields& fields, const std::string& heads, const std::string& hidden, const ModelConfig& c);

/// Sets heads, kv_heads and head_dim from the fields `heads` and `hidden`.
void heads_fields(const Fields& fields, const std::string& heads, const std::string& hidden, ModelConfig& c);

/// Sets bos, eos, pad and dropped_tokens. `defaults`: those of the family's class in transformers; none for other
/// families. For a classifier sets its labels, and language_head and tied_head: call it after tied_head is read.
void special_tokens(const ConfigFile& file, ModelConfig& c, const SpecialTokenDefaults& defaults = {});

/// `c`, which another family has read, with the model_type of this one.
ModelConfig with_model_type(std::string_view model_type, ModelConfig c);

/// Adds the classification head to the tensors of a model whose configuration has labels.
void add_classifier(const ModelConfig& c, DecoderSpec& spec);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/configure-inl.h"
#endif

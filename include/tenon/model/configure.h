// What families share in reading config.json. Each field that changes the output is read or refused; the rest (dropout,
// initialisation, summaries) acts in training, or in transformers' own caches.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "tenon/checkpoint/config.h"
#include "tenon/model/config.h"

namespace tenon {

inline constexpr int kLargestWidth = 1 << 20;  // of a row: keeps every offset within a row far from 2^31

// Which of a field's names is there (transformers' attribute_map); the first where none is. Error where two disagree.
std::string one_name(const Fields& fields, std::initializer_list<const char*> names);

int width_field(const Fields& fields, const std::string& name);

// The width of the MLP: `name`, or four times the model's.
int inner_field(const Fields& fields, const std::string& name, const std::string& hidden, int width);

// Caches of transformers read this field whatever the family, and forget what is behind it.
void refuse_window(const Fields& fields);

// "architectures" names one of these, where it stands there: other heads than the language model's have tensors of
// their own, which would be left unread.
void check_architectures(const Fields& fields, std::initializer_list<std::string_view> known);

Activation activation_field(const Fields& fields, const std::string& name, std::string_view fallback);

// Heads, and the head_dim that follows from them.
void heads_fields(const Fields& fields, const std::string& heads, const std::string& hidden, ModelConfig& c);

// defaults: of the family's class in transformers; none for a family that transformers does not have.
void special_tokens(const ConfigFile& file, ModelConfig& c, const SpecialTokenDefaults& defaults = {});

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/configure-inl.h"
#endif

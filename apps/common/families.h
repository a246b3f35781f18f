// Facts about families that need no engine: the sizes of their parts.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "menu.h"
#include "tenon/model/any_family.h"

namespace program {

// The family of that model_type. Error unsupported, with the list of those that the library has.
inline const tenon::Family& family_named(std::string_view model_type) {
  return tenon::find_family(tenon::BuiltInModels{}, model_type);
}

// Counts over the parts of a model.
struct WeightCount {
  std::size_t parameters = 0;
  std::size_t matrix_parameters = 0;  // of the layers: a step multiplies every row with each of them
  std::size_t matrix_bytes = 0;       // of the layers, as the format stores them
  std::size_t embedding_bytes = 0;    // of the embedding matrix, which may also be the head
  std::size_t head_bytes = 0;         // of the head; if tied, the embedding again
  std::size_t vector_bytes = 0;       // biases and gains
  std::size_t position_bytes = 0;     // of the position table

  std::size_t bytes(bool tied_head) const {
    return matrix_bytes + embedding_bytes + (tied_head ? 0 : head_bytes) + vector_bytes + position_bytes;
  }
};

inline WeightCount count_weights(const tenon::DecoderSpec& spec, bool tied_head, const WeightFormat& format) {
  WeightCount count;
  const auto elements = [](tenon::Shape shape) {
    return static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.cols);
  };
  std::set<std::string> tensors;
  const auto add_parameters = [&](const auto& spec_of_part) {
    for (const tenon::TensorPart& part : spec_of_part.parts)
      if (tensors.insert(part.name).second) count.parameters += elements({part.stored_rows(), spec_of_part.shape.cols});
  };
  const auto matrix = [&](const tenon::MatrixSpec& m) {
    if (m.none()) return;
    add_parameters(m);
    count.matrix_parameters += elements(m.shape);
    count.matrix_bytes += format.bytes(m.shape);
  };
  const auto head = [&](const tenon::MatrixSpec& m) { add_parameters(m); };
  const auto vector = [&](const tenon::VectorSpec& v) {
    if (v.none()) return;
    add_parameters(v);
    (&v == &spec.position_table ? count.position_bytes : count.vector_bytes) += elements(v.shape) * sizeof(float);
  };
  tenon::visit_parts(spec, tied_head, {matrix, head, vector});
  count.embedding_bytes = format.bytes(spec.embedding.shape);
  count.head_bytes = tied_head ? count.embedding_bytes : format.bytes(spec.head.shape);
  return count;
}

}  // namespace program

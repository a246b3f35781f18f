// The classification head of an adapter: `score`, which PEFT saves with adapters of task_type SEQ_CLS.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/checkpoint/peft.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon {

namespace detail {

inline constexpr std::string_view kScore = "score";  // the head's module in all decoders of transformers
inline constexpr std::uint64_t kMostLabels = 1 << 20;

}  // namespace detail

// PEFT adds "score" to modules_to_save of SEQ_CLS, where transformers gives the base a head of as many labels as its
// user asks for. In other tasks modules_to_save can name the head of a base that has one, whose shape stays.
TENON_INLINE void PeftAdapter::find_classifier(const PeftBase& base) {
  const bool classifies = config_.task == AdapterTask::classify;
  const auto& saved = config_.modules_to_save;
  const auto names_score = [](const std::string& each) { return detail::kScore.ends_with(each); };
  if (!classifies && (base.labels == 0 || std::none_of(saved.begin(), saved.end(), names_score))) return;
  const std::string name = "base_model.model." + std::string(detail::kScore) + ".weight";
  const TensorInfo* tensor = tensors_.find(name);
  if (!tensor)
    detail::refuse_file(tensors_.name() + ": " + name,
                        "the tensor is missing; " + std::string(classifies ? "task_type SEQ_CLS" : "modules_to_save") +
                            " of " + kPeftConfigName + " asks for it");
  classifier_ = &tensor_of(name, tensor->shape);
  const auto& shape = tensor->shape;
  const auto labels = static_cast<std::uint64_t>(base.labels);
  const bool fits = shape.size() == 2 && shape[1] == static_cast<std::uint64_t>(base.head_width) &&
                    (classifies ? shape[0] >= 1 && shape[0] <= detail::kMostLabels : shape[0] == labels);
  const std::string count = classifies ? "labels" : std::to_string(labels),
                    bound = classifies ? " with 1 to " + std::to_string(detail::kMostLabels) + " labels" : "";
  if (!fits)
    detail::refuse_file(tensors_.where(*tensor), "has shape " + shape_text(shape) + ", needs [" + count + ", " +
                                                     std::to_string(base.head_width) + "]" + bound);
}

TENON_INLINE std::size_t PeftAdapter::classifier_bytes() const {
  if (!classifier_) return 0;
  return static_cast<std::size_t>(classifier_->shape[0] * classifier_->shape[1]) * sizeof(float);
}

TENON_INLINE std::shared_ptr<const ClassifierHead> PeftAdapter::read_classifier() const {
  if (!classifier_) return nullptr;
  std::vector<float> weights(classifier_bytes() / sizeof(float));
  read_floats(*classifier_, weights);
  return std::make_shared<const ClassifierHead>(std::move(weights), static_cast<int>(classifier_->shape[1]));
}

TENON_INLINE bool PeftAdapter::has_prefix(std::string_view prefix) const {
  const std::string begin = "base_model.model." + std::string(prefix);
  const auto& all = tensors_.tensors();
  return std::any_of(all.begin(), all.end(), [&](const TensorInfo& each) { return each.name.starts_with(begin); });
}

}  // namespace tenon

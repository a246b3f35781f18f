// Lists the linears of a model that adapters may update, from the specification of its matrices.
#pragma once
#include <memory>
#include <string_view>

#include "tenon/adapter/site.h"
#include "tenon/model/files.h"
#include "tenon/model/parts.h"

namespace tenon {

namespace detail {

inline constexpr std::string_view kWeightSuffix = ".weight";

}  // namespace detail

/// The adapter sites of a model. `prefix`: Model::name_prefix. `tensors`: the model's checkpoint; null if it has none.
AdapterSites adapter_sites(const DecoderSpec& spec, std::string_view prefix,
                           std::shared_ptr<const Checkpoint> tensors = {});

/// The same for the files of a model, whose adapters may have other names than its tensors.
AdapterSites adapter_sites(const DecoderSpec& spec, std::string_view prefix, const ModelFiles& files);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/adapter_sites-inl.h"
#endif

// The linears of a model that adapters may update, read off where its matrices come from.
#pragma once
#include <memory>
#include <string_view>

#include "tenon/adapter/site.h"
#include "tenon/model/parts.h"

namespace tenon {

namespace detail {

inline constexpr std::string_view kWeightSuffix = ".weight";

}  // namespace detail

// `prefix`: of the whole model's names, as Model::name_prefix. `tensors`: the model's file, null where it has none.
AdapterSites adapter_sites(const DecoderSpec& spec, std::string_view prefix,
                           std::shared_ptr<const Checkpoint> tensors = {});

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/adapter_sites-inl.h"
#endif

// Which adapter a request names.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "server/request_fields.h"

namespace serve {

// Empty, the base model's id or LoRAX's word for it.
bool names_base(std::string_view name, std::string_view base_model);

// ApiError bad_adapter_name; `param` is the field that it stands in.
void check_adapter_name(const std::string& name, const std::string& param);

// `adapter_id`, none for the base model; checks `adapter_source` too.
std::optional<std::string> adapter_id_of(const RequestFields& fields, std::string_view base_model);

}  // namespace serve

#include "server/adapter_name.h"

#include "server/api_error.h"
#include "tenon/adapter/root.h"

namespace serve {

bool names_base(std::string_view name, std::string_view base_model) {
  return name.empty() || name == base_model || name == "__base_model__";
}

void check_adapter_name(const std::string& name, const std::string& param) {
  if (tenon::is_adapter_id(name)) return;
  throw ApiError(ApiError::Kind::bad_adapter_name,
                 "`" + param +
                     "` must be the name of a model or adapter: one or two words of letters, digits, '.', '_' " +
                     "and '-' with a slash between them. Given: `" + shown(name) + "`",
                 param);
}

std::optional<std::string> adapter_id_of(const RequestFields& fields, std::string_view base_model) {
  const auto source = fields.string("adapter_source");
  if (source && !source->empty() && *source != "local") {
    throw ApiError(ApiError::Kind::invalid, "`adapter_source=" + shown(*source) + "` is not supported",
                   "adapter_source");
  }
  auto id = fields.string("adapter_id");
  if (!id || names_base(*id, base_model)) return std::nullopt;
  check_adapter_name(*id, "adapter_id");
  return id;
}

}  // namespace serve

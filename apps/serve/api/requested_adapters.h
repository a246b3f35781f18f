// Reads from a request which adapters it names. AdapterNames finds their folders.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/request_context.h"
#include "serve/api/request_fields.h"
#include "tenon/core/request.h"

namespace serve {

// Whether a name means the base model: empty, a name of the model, LoRAX's `__base_model__`, or TGI's `tgi` and `dummy`
// if no adapter has that name.
bool names_base(const std::string& name, const RequestContext& context);

// Throws ApiError bad_adapter_name if the name is not valid. `param`: the field that holds the name. `source`: "", or
// that of `adapter_source`.
void check_adapter_name(const std::string& name, const std::string& param, std::string_view source = {});

struct NamedAdapters {
  std::vector<tenon::AdapterUse> uses;  // none: the base model; several, or one with a weight: added up
  std::string field;                    // the field that names them; empty: none
};

// Adapters that the objects of one request name by model, adapter_id, adapters, lora, lora_request or merged_adapters.
// ApiError where two fields name different ones.
NamedAdapters named_adapters(std::initializer_list<const RequestFields*> objects, const RequestContext& context,
                             UnknownFields& unknown);

}  // namespace serve

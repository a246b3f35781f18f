#include "shapes.h"

#include "tenon/model/any_family.h"

namespace program {

void need_family(std::string_view model_type) { tenon::find_family(tenon::BuiltInModels{}, model_type); }

std::span<const KnownShape> known_shapes() {
  static constexpr KnownShape shapes[] = {{"gpt2", tenon::Gpt2::small},
                                          {"llama-1b", tenon::Llama::one_billion},
                                          {"mistral-7b", tenon::Mistral::seven_billion},
                                          {"bloom-560m", tenon::Bloom::small},
                                          {"starcoder", tenon::GptBigCode::starcoder}};
  return shapes;
}

}  // namespace program

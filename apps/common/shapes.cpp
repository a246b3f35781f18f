#include "shapes.h"

#include "tenon/model/with_model.h"

namespace program {

void need_family(std::string_view model_type) {
  tenon::with_model(tenon::BuiltInModels{}, model_type, [](auto) { return 0; });
}

std::span<const KnownShape> known_shapes() {
  static constexpr KnownShape shapes[] = {{"gpt2", tenon::Gpt2::small},
                                          {"llama-1b", tenon::Llama::one_billion},
                                          {"mistral-7b", tenon::Mistral::seven_billion},
                                          {"bloom-560m", tenon::Bloom::small},
                                          {"starcoder", tenon::GptBigCode::starcoder}};
  return shapes;
}

}  // namespace program

#include "conversations.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/io/file.h"

namespace program {
namespace {

constexpr const char* kField = "messages";

// The wall clock of the time zone that TZ or the system names. std::chrono::current_zone() needs GCC 14.
std::chrono::local_seconds local_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return std::chrono::local_seconds(std::chrono::seconds(seconds + parts.tm_gmtoff));
}

}  // namespace

std::string model_name(const ModelOptions& options) {
  std::filesystem::path path = options.model.empty() ? model_folder(options) : std::filesystem::path(options.model);
  path = path.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

tenon::chat::ModelTemplate find_chat_template(const std::filesystem::path& model, const std::string& template_file,
                                              const tenon::Tokenizer* tokenizer) {
  using tenon::chat::ModelTemplate;
  const auto refuse = [](const char* why) { throw tenon::Error(tenon::Error::Kind::invalid_request, kField, why); };
  if (!tokenizer) refuse("this model has no tokenizer");
  if (!template_file.empty()) {
    const std::string text = tenon::read_text_file(template_file, tenon::kMaxChatTemplateFile);
    return ModelTemplate::of_text(text, template_file, model, *tokenizer);
  }
  auto found = ModelTemplate::find(model, *tokenizer);
  if (!found) refuse("this model has no chat template; --chat-template names a file with one");
  return std::move(*found);
}

Conversations::Conversations(std::function<tenon::chat::ModelTemplate()> find, const tenon::Tokenizer* tokenizer,
                             const tenon::ModelConfig& config)
    : find_(std::move(find)), tokenizer_(tokenizer), config_(config), now_(local_now()) {}

bool Conversations::render(tenon::chat::Conversation conversation, tenon::Request& request) {
  if (failure_) std::rethrow_exception(failure_);
  if (!template_) {
    try {
      template_ = find_();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }
  const tenon::chat::ModelTemplate& chat = *template_;
  conversation.now = now_;
  const tenon::chat::Rendered prompt = chat.render(std::move(conversation));
  tenon::check_length_of_text(prompt.text, *tokenizer_, config_.positions, kField);
  request.input_ids = tokenizer_->encode_rendered(prompt.text, prompt.template_spans);
  if (request.input_ids.empty())
    throw tenon::Error(tenon::Error::Kind::invalid_request, kField, "give an empty prompt by this chat template");
  std::string_view end_of_prompt = prompt.text;
  end_of_prompt = end_of_prompt.substr(0, end_of_prompt.find_last_not_of(" \n") + 1);
  const bool thinks = end_of_prompt.ends_with("<think>");
  if (request.options.ignore_eos) return thinks;
  const tenon::chat::TurnEnd& end = chat.turn_end();
  for (const tenon::TokenId id : end.ids)
    if (id < config_.vocab) request.options.stop_ids.push_back(id);
  request.options.stop.insert(request.options.stop.end(), end.texts.begin(), end.texts.end());
  return thinks;
}

}  // namespace program

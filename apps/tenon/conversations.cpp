#include "conversations.h"

#include <ctime>
#include <utility>

#include "conversation/call_constraint.h"
#include "tenon/core/error.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/io/file.h"
#include "trimmed.h"

namespace program {
namespace {

constexpr const char* kField = "messages";

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
    : find_(std::move(find)), tokenizer_(tokenizer), config_(config) {}

const ChatTemplate& Conversations::chat_template() {
  if (failure_) std::rethrow_exception(failure_);
  if (!template_) {
    try {
      template_.emplace(find_(), [now = local_now()] { return now; });
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  }
  return *template_;
}

bool Conversations::render(tenon::chat::Conversation conversation, tenon::Request& request) {
  const ChatTemplate& chat = chat_template();
  conversation.now = chat.now();
  tenon::chat::Rendered prompt = chat.model().render(std::move(conversation));
  const bool thinks = trimmed(prompt.text, " \n").ends_with("<think>");
  set_prompt({std::move(prompt.text), std::move(prompt.template_spans)}, request);
  return thinks;
}

AnswerStyle Conversations::render_chat(tenon::chat::Conversation conversation, const ToolChoice& choice,
                                       tenon::Request& request, std::optional<std::int64_t> now) {
  const ChatTemplate& chat = chat_template();
  const ChatPrompt prompt =
      chat.render(std::move(conversation), now ? local_time(static_cast<std::time_t>(*now)) : chat.now());
  set_prompt(prompt, request);
  AnswerStyle style = answer_style(chat, choice, prompt.thinking, /*has_form=*/request.constraint != nullptr);
  show_markers(style, *tokenizer_, request.options);
  return style;
}

void Conversations::set_prompt(const ChatPrompt& prompt, tenon::Request& request) {
  tenon::check_length_of_text(prompt.text, *tokenizer_, config_.positions, kField);
  request.input_ids = tokenizer_->encode_rendered(prompt.text, prompt.template_spans);
  if (request.input_ids.empty())
    throw tenon::Error(tenon::Error::Kind::invalid_request, kField, "give an empty prompt by this chat template");
  if (request.options.ignore_eos) return;
  const tenon::chat::TurnEnd& end = chat_template().turn_end();
  for (const tenon::TokenId id : end.ids)
    if (id < config_.vocab) request.options.stop_ids.push_back(id);
  request.options.stop.insert(request.options.stop.end(), end.texts.begin(), end.texts.end());
}

}  // namespace program

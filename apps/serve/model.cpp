#include "serve/model.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>

#include "families.h"
#include "serve/api/api_error.h"
#include "serve/text.h"
#include "tenon/checkpoint/generation_config.h"
#include "tenon/constrain/vocabulary.h"
#include "tenon/engine/prepared_request.h"

namespace serve {
namespace {

using tenon::Error;

constexpr const char* kNoChatTemplate = "this model has no chat template; the server's --chat-template names one";

// The options of generation_config.json, where the settings ask for them.
std::optional<tenon::Options> generation_defaults(const Settings& settings, const tenon::ModelFiles& files) {
  if (!settings.generation_config) return std::nullopt;
  tenon::Options defaults;
  tenon::set_generation_defaults(*files.config, defaults);
  return defaults;
}

tenon::ModelFiles open(const Settings& settings) {
  tenon::ModelFiles files = tenon::load_checkpoint(program::model_folder(settings.model));
  program::need_tokenizer(files, "tenon-serve");
  return files;
}

// The longest sequence that an engine for these files will take.
int context_of(const Settings& settings, const tenon::ModelFiles& files) {
  if (settings.model.positions > 0) return settings.model.positions;
  return program::family_named(program::model_type(files)).configure(*files.config).positions;
}

Settings resolved(Settings settings, const tenon::ModelFiles& files) {
  settings.resolve(std::filesystem::absolute(program::model_folder(settings.model)), context_of(settings, files));
  settings.model = program::with_stored_weights(settings.model, files);
  return settings;
}

// Admission counts requests and their work; the service only has to bear those that come through, with all their
// prompts.
tenon::ServiceOptions service_options(const Settings& settings) {
  const int most = (settings.max_concurrent_requests + settings.guests()) *
                   static_cast<int>(std::max(kMostChoicesOfABody, kMostInputs));
  return {.max_open = most, .max_waiting = most, .max_waiting_tokens = std::numeric_limits<int>::max()};
}

std::unique_ptr<tenon::AnyEngine> make_engine(const Settings& settings, std::shared_ptr<AdapterNames> adapters,
                                              std::shared_ptr<StepHistory> steps, const tenon::ModelFiles& files) {
  program::ModelOptions options = settings.model;
  options.guests = std::max(1, options.batch / 8);
  options.adapter_folder = [adapters = std::move(adapters)](const std::string& name) { return adapters->folder(name); };
  if (settings.ui)
    options.on_step = [steps = std::move(steps)](const tenon::StepReport& report) { steps->add(report); };
  return program::make_engine(options, files);
}

// Leaves the first or the last `most` tokens.
void cut(std::vector<tenon::TokenId>& ids, std::size_t most, bool keeps_first) {
  if (ids.size() <= most) return;
  if (keeps_first)
    ids.resize(most);
  else
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(most));
}

// text: what the template renders with the documents. A template that fails without them uses them.
bool shows_documents(const ChatTemplate& chat, tenon::chat::Conversation asked, std::chrono::local_seconds now,
                     const std::string& text) {
  asked.documents = nullptr;
  try {
    return chat.render(std::move(asked), now).text != text;
  } catch (const Error&) {
    return true;
  }
}

AdapterPlaces places_of(const Settings& settings) {
  AdapterPlaces places{.root = settings.model.adapter_root, .hub_cache = settings.hub_cache};
  if (!settings.fetch.command.empty()) places.fetcher = std::make_shared<AdapterFetcher>(settings.fetch);
  return places;
}

}  // namespace

Model::Model(const Settings& settings) : Model(settings, open(settings)) {}

Model::Model(const Settings& settings, const tenon::ModelFiles& files)
    : settings_(resolved(settings, files)),
      boot_(random_id()),
      adapters_(std::make_shared<AdapterNames>(places_of(settings_))),
      made_(make_engine(settings_, adapters_, steps_, files)),
      engine_(*made_),
      fingerprint_(engine_.fingerprint()),
      service_(std::make_unique<Service>(std::move(made_), service_options(settings_))),
      context_{.limits = {.max_input_tokens = settings_.max_input_length,
                          .max_total_tokens = settings_.max_total_tokens,
                          .max_stop_sequences = settings_.max_stop_sequences,
                          .max_best_of = settings_.max_best_of,
                          .max_n = settings_.max_n,
                          .default_new_tokens = settings_.default_max_new_tokens,
                          .generation = generation_defaults(settings_, files),
                          .drawing_temperature =
                              settings_.generation_config ? tenon::drawing_temperature(*files.config) : 1},
               .base_names = settings_.served_model_names,
               .lenient = settings_.lenient,
               .parse_special = settings_.parse_special,
               .is_adapter = [this](const std::string& name) { return adapters_->is_known(name); },
               .adapter_of_id = [this](std::int64_t number) { return adapter_of_number(number); },
               .fetches = adapters_->fetches(),
               .adapter_from = [this](const std::string& name,
                                      const std::string& source) { return adapter_from(name, source); }},
      heads_(read_head_recipe(program::model_folder(settings_.model), files, service_->config())),
      chat_(find_chat_template()),
      created_(seconds_now()) {
  for (const std::string& name : settings_.preload_adapters) {
    load_adapter(name);
    numbered_adapters();  // in the order in which they are named
  }
}

std::string Model::adapter_from(const std::string& name, const std::string& source) {
  const auto reference = adapter_reference(name);  // none: a name of many words, as s3 has
  if (source.empty() || (reference && reference->remote())) return name;
  if (source == "s3") return "s3:" + name;
  if (source == "local") {
    if (adapters_->source_of(name) != "local") throw unknown_adapter(name);
    return name;
  }
  return adapters_->fetches() && !adapters_->is_known(name) ? "hub:" + name : name;
}

void Model::load_adapter(const std::string& name) {
  const tenon::AdapterUse use{name};
  const auto there = resident();
  const bool loaded =
      std::any_of(there.begin(), there.end(), [&](const tenon::AdapterInfo& each) { return each.name == name; });
  if (!loaded) engine_.unload_adapter(name);  // forgets a failure: the files may be right by now
  const tenon::AdapterLease held = engine_.lease(std::span(&use, 1), tenon::detail::after(settings_.adapter_wait));
}

bool Model::unload_adapter(const std::string& name) {
  std::lock_guard lock(unloading_);
  const bool added = adapters_->remove(name);
  forget_lists();
  return engine_.unload_adapter(name) || added;
}

std::map<std::int64_t, std::string> Model::numbered_adapters() {
  const auto there = resident();
  std::lock_guard lock(numbering_);
  std::map<std::int64_t, std::string> numbered;
  for (const tenon::AdapterInfo& each : there) {
    const auto next = static_cast<std::int64_t>(numbers_.size());
    numbered.emplace(numbers_.try_emplace(each.name, next).first->second, each.name);
  }
  return numbered;
}

std::optional<std::string> Model::adapter_of_number(std::int64_t number) {
  numbered_adapters();  // a client may know llama.cpp's order without having asked
  std::lock_guard lock(numbering_);
  for (const auto& [name, its] : numbers_)
    if (its == number) return name;
  return std::nullopt;
}

std::shared_ptr<const tenon::Constraint> Model::constraint(const AnswerForm& form) {
  try {
    std::call_once(constraints_made_, [&] {
      constraints_ = std::make_unique<tenon::constrain::Constraints>(
          tenon::constrain::Vocabulary::from(tokenizer(), config().vocab, config().eos));
    });
    switch (form.kind) {
      case AnswerForm::Kind::schema:
        return constraints_->json_schema(form.schema);
      case AnswerForm::Kind::regex:
        return constraints_->regex(form.text);
      case AnswerForm::Kind::grammar:
        return constraints_->grammar(form.text);
      case AnswerForm::Kind::choice:
        return constraints_->choice(form.choices);
    }
  } catch (const tenon::constrain::Refused& refused) {
    throw ApiError(ApiError::Kind::invalid,
                   "`" + form.field + "`: " + shown(refused.where()) + ": " + shown(refused.reason()), form.field);
  }
  return nullptr;
}

const PairTemplate& Model::pair_template() {
  std::call_once(pair_template_made_,
                 [&] { pair_template_ = read_pair_template(program::model_folder(settings_.model), tokenizer()); });
  return pair_template_;
}

std::optional<ChatTemplate> Model::find_chat_template() {
  try {
    return ChatTemplate::chosen(settings_.chat_template, program::model_folder(settings_.model), tokenizer(),
                                program::local_now);
  } catch (const Error& error) {
    if (settings_.chat_template != "auto") throw;  // the one that was asked for
    chat_error_ = error;
    return std::nullopt;
  }
}

void Model::constrain_calls(const ToolChoice& choice, const AnswerStyle& style, tenon::Request& request,
                            const std::string& form_field) {
  try {
    std::call_once(chat_constraints_made_, [&] {
      chat_constraints_ = std::make_unique<program::CallConstraints>(
          program::chat_tokens(*chat_, tokenizer(), config()), tokenizer(), config());
    });
    program::constrain_calls(*chat_constraints_, choice, style, request);
  } catch (const tenon::constrain::Refused& refused) {
    const std::string why = shown(refused.reason());
    const auto is_of_function = [&](const FunctionTool& each) { return refused.where().starts_with(each.name + ": "); };
    if (form_field.empty() || std::any_of(choice.functions.begin(), choice.functions.end(), is_of_function))
      throw ApiError(ApiError::Kind::invalid, "`tools`: " + shown(refused.where()) + ": " + why, "tools");
    const bool like_calls = refused.where() == "answer";
    throw ApiError(ApiError::Kind::invalid,
                   "`" + form_field + "`: " + (like_calls ? "an answer" : shown(refused.where()) + ", beside `tools`") +
                       (like_calls ? " " : ": ") + why + "; set `tool_choice` to \"none\" or \"required\", or " +
                       (like_calls ? "name the properties of the format" : "make the format smaller"),
                   form_field);
  }
}

Model::Chat Model::chat_prompt(tenon::chat::Conversation conversation, std::optional<std::int64_t> created,
                               const std::string& field) const {
  const auto refuse = [&field](const Error& error) {
    throw ApiError(ApiError::Kind::invalid, "`" + field + "`: " + shown(error.what(), 1000), field);
  };
  if (chat_error_) refuse(*chat_error_);
  if (!chat_) throw ApiError(ApiError::Kind::invalid, kNoChatTemplate, field);
  ChatPrompt prompt;
  const auto now = created ? program::local_time(*created) : chat_->now();
  const bool has_documents = conversation.documents.is_array() && !conversation.documents.empty();
  std::optional<tenon::chat::Conversation> asked;  // with documents
  if (has_documents) asked = conversation;
  try {
    prompt = chat_->render(std::move(conversation), now);
  } catch (const Error& error) {
    refuse(error);
  }
  if (asked && !shows_documents(*chat_, std::move(*asked), now, prompt.text)) {
    throw ApiError(ApiError::Kind::invalid,
                   "`documents`: the chat template does not show them: put their texts into a message", "documents");
  }
  tenon::check_length_of_text(prompt.text, tokenizer(), limits().max_input_tokens, field.c_str());
  std::vector<tenon::TokenId> ids = tokenizer().encode_rendered(prompt.text, prompt.template_spans);
  return {std::move(ids), std::move(prompt.text), prompt.thinking};
}

void Model::add_chat_stops(tenon::Options& options) const {
  if (!chat_) return;
  const tenon::chat::TurnEnd& end = chat_->turn_end();
  const auto& eos = config().eos;
  options.stop.insert(options.stop.end(), end.texts.begin(), end.texts.end());
  for (const tenon::TokenId id : end.ids)
    if (std::find(eos.begin(), eos.end(), id) == eos.end() && (!options.ignore_eos || id != tokenizer().end_of_text()))
      options.stop_ids.push_back(id);
}

std::vector<tenon::TokenId> Model::tokens(const std::string& text, const PromptText& how) const {
  const bool whole = how.add_special_tokens && how.truncate == 0;
  if (whole || text.empty()) return tenon::prompt_tokens(text, tokenizer(), config().positions, how.parse_special);
  if (how.truncate == 0) tenon::check_length_of_text(text, tokenizer(), config().positions);
  std::vector<tenon::TokenId> ids = tokenizer().encode(text, how.parse_special);
  if (!how.add_special_tokens) {
    if (how.truncate > 0) cut(ids, static_cast<std::size_t>(how.truncate), how.keeps_first);
    return ids;
  }
  const auto before = tokenizer().before_prompt(), after = tokenizer().after_prompt();
  const std::size_t around = before.size() + after.size(), most = static_cast<std::size_t>(how.truncate);
  cut(ids, most > around ? most - around : 0, how.keeps_first);
  std::vector<tenon::TokenId> all(before.begin(), before.end());
  all.insert(all.end(), ids.begin(), ids.end());
  all.insert(all.end(), after.begin(), after.end());
  cut(all, most, how.keeps_first);  // `most` may be smaller than the number of special tokens
  return all;
}

std::vector<tenon::TokenId> Model::predicted(std::string text) const {
  const auto most = tokenizer().most_bytes_a_token();
  const auto positions = static_cast<std::size_t>(std::max(config().positions, 0));
  if (most && positions > 0 && text.size() / positions > *most) {
    text.resize(positions * *most);
    while (!text.empty() && (text.back() & 0xc0) == 0x80) text.pop_back();  // a character that was cut
    if (!text.empty() && (text.back() & 0x80) != 0) text.pop_back();
  }
  std::vector<tenon::TokenId> ids = tokenizer().encode(text);
  std::erase_if(ids, [&](tenon::TokenId id) { return id >= config().vocab; });  // the tokenizer may know more
  return ids;
}

}  // namespace serve

// What is served: a model with its engine, the adapters that may be named, and what it can be asked for.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/adapter_names.h"
#include "serve/api/answer.h"
#include "serve/api/gate.h"
#include "serve/api/heads/head_recipe.h"
#include "serve/api/model_list.h"
#include "serve/api/request_context.h"
#include "serve/api/response_format.h"
#include "serve/chat.h"
#include "serve/page/step_history.h"
#include "serve/settings.h"
#include "tenon/constrain/constraints.h"
#include "tenon/engine/any_engine.h"

namespace serve {

// How a raw prompt becomes tokens.
struct PromptText {
  bool parse_special = true;       // spellings of special tokens become their ids
  bool add_special_tokens = true;  // with what the model expects around a prompt, such as a begin of text
  int truncate = 0;                // keep this number of tokens, those around the prompt included; 0: all
  bool keeps_first = false;        // the first ones, not the last ones
};

class Model {
 public:
  // Reads the model and the adapters that are to be loaded at once. Settings are resolved here.
  explicit Model(const Settings& settings);

  Service& service() { return *service_; }
  const Settings& settings() const { return settings_; }
  const std::string& name() const { return settings_.served_model_names.front(); }
  const std::vector<std::string>& names() const { return settings_.served_model_names; }
  const RequestLimits& limits() const { return context_.limits; }
  const RequestContext& context() const { return context_; }
  Gate& listed() { return listed_; }  // log-probabilities of answers under way
  const tenon::Tokenizer& tokenizer() const { return *service_->tokenizer(); }
  const tenon::ModelConfig& config() const { return service_->config(); }
  std::int64_t created() const { return created_; }  // seconds since 1970, when it was loaded
  std::size_t weight_bytes() const { return engine_.weight_bytes(); }
  const std::string& fingerprint() const { return fingerprint_; }  // short

  AdapterNames& adapters() { return *adapters_; }
  std::vector<tenon::AdapterInfo> resident() { return engine_.adapters(); }
  // Errors as Service::submit, which takes it where a request has none.
  tenon::AdapterLease lease(std::span<const tenon::AdapterUse> uses, tenon::Patience patience) {
    return engine_.lease(uses, std::move(patience));
  }
  // Adapters in memory, each with a number that stays its own while the server runs. By number.
  std::map<std::int64_t, std::string> numbered_adapters();
  std::optional<std::string> adapter_of_number(std::int64_t number);  // in memory now, or once
  ModelCatalog& list() { return list_; }
  ModelCatalog& tags() { return tags_; }
  // The lists name adapters anew when they are asked for next.
  void forget_lists() {
    list_.forget();
    tags_.forget();
  }
  tenon::AdapterStats adapter_stats() { return engine_.adapter_stats(); }
  std::string adapter_name(int adapter) { return engine_.adapter_name(adapter); }  // of a StepHistory's row
  const StepHistory& steps() const { return *steps_; }
  const std::string& boot() const { return boot_; }  // another one each time that the model is loaded
  // Reads it now, to refuse here what a request would be refused for; what is remembered of an earlier failure is
  // forgotten.
  void load_adapter(const std::string& name);
  // False where it is neither resident nor a name that was added. One at a time: two that ask at once are not both told
  // yes.
  bool unload_adapter(const std::string& name);

  // Compiled in the caller's thread. ApiError invalid with the field and the place in it.
  std::shared_ptr<const tenon::Constraint> constraint(const AnswerForm& form);

  // The constraint of an answer that may call functions. ApiError invalid with the place in the schema.
  void constrain_calls(const ToolChoice& choice, const AnswerStyle& style, tenon::Request& request,
                       const std::string& form_field);

  // A rendered conversation: what the model goes on from.
  struct Chat {
    std::vector<tenon::TokenId> ids;
    std::string text;
    bool thinking = false;  // the answer starts within the reasoning
  };
  // ApiError, with line and column of the template, where it refuses the conversation, or there is none.
  // `created`: the time that the template is told, in seconds since 1970; none: now. `field`: what the client calls the
  // messages.
  Chat chat_prompt(tenon::chat::Conversation conversation, std::optional<std::int64_t> created = {},
                   const std::string& field = "messages") const;
  bool has_chat_template() const { return chat_.has_value(); }
  const ChatTemplate& chat_template() const { return *chat_; }  // where there is one
  // Why the model's template cannot be used; none: it can, or there is none.
  const std::optional<tenon::Error>& chat_error() const { return chat_error_; }
  void add_chat_stops(
      tenon::Options& options) const;  // what ends the assistant's turn; not an eos where that is ignored
  // The tokens of a raw prompt. tenon::Error, field prompt, where it is empty or cannot fit into the model's positions.
  std::vector<tenon::TokenId> tokens(const std::string& text, const PromptText& how = {}) const;

  // The tokens of a prediction, without what no answer can reach.
  std::vector<tenon::TokenId> predicted(std::string text) const;

  // The settings of embeddings, classes and ranks in its files.
  const HeadRecipe& heads() const { return heads_; }
  // Tokens around two texts. Reads tokenizer.json when it is first asked for.
  const PairTemplate& pair_template();

 private:
  explicit Model(const Settings& settings, const tenon::ModelFiles& files);

  std::optional<ChatTemplate> find_chat_template();
  // RequestContext::adapter_from.
  std::string adapter_from(const std::string& name, const std::string& source);

  Settings settings_;
  const std::string boot_;
  const std::shared_ptr<StepHistory> steps_ = std::make_shared<StepHistory>();
  const std::shared_ptr<AdapterNames> adapters_;
  std::unique_ptr<tenon::AnyEngine> made_;  // null once the service has it
  tenon::AnyEngine& engine_;
  const std::string fingerprint_;  // asked for before the service steps the engine
  const std::unique_ptr<Service> service_;
  RequestContext context_;
  const HeadRecipe heads_;
  ModelCatalog list_, tags_;
  std::mutex numbering_;
  std::map<std::string, std::int64_t> numbers_;  // of adapters that were in memory when somebody looked
  Gate listed_{kMostListedTogether};
  std::optional<tenon::Error> chat_error_;
  std::optional<ChatTemplate> chat_;
  std::int64_t created_;
  std::mutex unloading_;
  std::once_flag pair_template_made_;
  PairTemplate pair_template_;
  std::once_flag constraints_made_;
  std::unique_ptr<tenon::constrain::Constraints> constraints_;
  std::once_flag chat_constraints_made_;
  std::unique_ptr<program::CallConstraints> chat_constraints_;
};

}  // namespace serve

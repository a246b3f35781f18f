#include "serve/api/openapi.h"

#include <algorithm>
#include <map>
#include <span>

#include "serve/api/api_error.h"
#include "serve/api/route_table.h"
#include "tenon/version.h"

namespace serve {
namespace {

using tenon::OrderedJson;

struct FieldSchema {
  std::string_view name;
  std::uint64_t places;
  std::string_view schema;
};

constexpr std::string_view kAny = "{}";
constexpr std::string_view kText = R"({"type":"string"})";
constexpr std::string_view kName = R"({"type":"string","minLength":1})";
constexpr std::string_view kBoolean = R"({"type":"boolean"})";
constexpr std::string_view kCount = R"({"type":"integer","minimum":0})";
constexpr std::string_view kOneOrMore = R"({"type":"integer","minimum":1})";
constexpr std::string_view kNumber = R"({"type":"number"})";
constexpr std::string_view kTexts = R"({"type":"array","items":{"type":"string"}})";
constexpr std::string_view kTextOrObject = R"({"type":["string","object"]})";
constexpr std::string_view kInputs =
    R"({"anyOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"maxItems":2048,"items":{"type":"string","minLength":1}},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}},{"type":"array","minItems":1,"maxItems":2048,"items":{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}}}]})";
constexpr std::string_view kOneOrSeveral =
    R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"maxItems":2048,"items":{"type":"string"}}]})";
constexpr std::string_view kTwo = R"({"type":"number","minimum":-2,"maximum":2})";

// clang-format off
constexpr FieldSchema kSchemas[] = {
    {"model", kOllama | kOllamaShow, kText},
    {"messages", kOllamaChat, R"({"type":"array","maxItems":1024,"items":{"$ref":"#/components/schemas/OllamaMessage"}})"},
    {"tools", kOllamaChat, R"({"type":"array","maxItems":128,"items":{"$ref":"#/components/schemas/Tool"}})"},
    {"prompt", kOllamaGenerate | kOllamaEmbeddings, kText},
    {"system", kOllamaGenerate, kText},
    {"raw", kOllamaGenerate, kBoolean},
    {"stream", kOllamaWriting, R"({"type":"boolean","default":true})"},
    {"format", kOllamaWriting, kTextOrObject},
    {"think", kOllamaWriting, R"({"anyOf":[{"type":"boolean"},{"enum":["none","minimal","low","medium","high","xhigh","max"]}]})"},
    {"options", kOllama, R"({"$ref":"#/components/schemas/OllamaOptions"})"},
    {"input", kOllamaEmbed, kInputs},
    {"dimensions", kOllamaEmbed, kOneOrMore},
    {"truncate", kOllamaEmbed, kBoolean},
    {"role", kOllamaMessage, R"({"enum":["system","user","assistant","tool"]})"},
    {"content", kOllamaMessage, kText},
    {"thinking", kOllamaMessage, kText},
    {"tool_calls", kOllamaMessage, R"({"type":"array","items":{"$ref":"#/components/schemas/OllamaCall"}})"},
    {"tool_name", kOllamaMessage, kText},
    {"tool_call_id", kOllamaMessage, kText},
    {"id", kOllamaCall, kText},
    {"function", kOllamaCall, R"({"$ref":"#/components/schemas/OllamaFunction"})"},
    {"name", kOllamaFunction, kName},
    {"arguments", kOllamaFunction, R"({"type":"object"})"},
    {"num_predict", kOllamaOptions, R"({"type":"integer","minimum":-2})"},
    {"num_ctx", kOllamaOptions, kOneOrMore},
    {"temperature", kOllamaOptions, R"({"type":"number","minimum":0,"maximum":2})"},
    {"top_k", kOllamaOptions, R"({"type":"integer","minimum":-1})"},
    {"top_p", kOllamaOptions, R"({"type":"number","minimum":0,"maximum":1})"},
    {"min_p", kOllamaOptions, R"({"type":"number","minimum":0,"maximum":1})"},
    {"typical_p", kOllamaOptions, R"({"type":"number","exclusiveMinimum":0,"maximum":1})"},
    {"repeat_penalty", kOllamaOptions, R"({"type":"number","exclusiveMinimum":0})"},
    {"repeat_last_n", kOllamaOptions, R"({"type":"integer","minimum":-1})"},
    {"presence_penalty", kOllamaOptions, kTwo},
    {"frequency_penalty", kOllamaOptions, kTwo},
    {"seed", kOllamaOptions, R"({"type":"integer"})"},
    {"stop", kOllamaOptions, R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string","minLength":1}}]})"},
    {"inputs", kGenerate | kTokenize, kName},
    {"prompt", kTokenize, kText},
    {"content", kTokenize, kText},
    {"with_pieces", kTokenize, kBoolean},
    {"return_token_strs", kTokenize, kBoolean},
    {"tokens", kDetokenize, R"({"type":"array","items":{"type":"integer","minimum":0}})"},
    {"parameters", kGenerate, R"({"$ref":"#/components/schemas/Parameters"})"},
    {"prompt", kCompletions, R"({"anyOf":[{"type":"string","minLength":1},{"type":"array","minItems":1,"items":{"type":"string","minLength":1}},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}},{"type":"array","minItems":1,"items":{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}}}]})"},
    {"messages", kConversation, R"({"type":"array","minItems":1,"maxItems":1024,"items":{"$ref":"#/components/schemas/Message"}})"},
    {"messages", kMessages, R"({"type":"array","minItems":1,"maxItems":1024,"items":{"$ref":"#/components/schemas/Turn"}})"},
    {"tools", kConversation, R"({"type":"array","maxItems":128,"items":{"$ref":"#/components/schemas/Tool"}})"},
    {"tools", kResponses, R"({"type":"array","maxItems":128,"items":{"type":"object"}})"},
    {"tools", kMessages, R"({"type":"array","maxItems":128,"items":{"$ref":"#/components/schemas/InputTool"}})"},
    {"tool_choice", kChat, R"({"anyOf":[{"enum":["none","auto","required"]},{"$ref":"#/components/schemas/ToolChoice"}]})"},
    {"tool_choice", kResponses, R"({"type":["string","object"]})"},
    {"tool_choice", kMessages, R"({"$ref":"#/components/schemas/InputChoice"})"},
    {"parallel_tool_calls", kChat, kBoolean},
    {"type", kTool | kToolCall, R"({"const":"function"})"},
    {"type", kToolChoice, R"({"enum":["function","allowed_tools"]})"},
    {"allowed_tools", kToolChoice, R"({"$ref":"#/components/schemas/AllowedTools"})"},
    {"mode", kAllowedTools, R"({"enum":["auto","required"]})"},
    {"tools", kAllowedTools, R"({"type":"array","minItems":1,"items":{"$ref":"#/components/schemas/ToolChoice"}})"},
    {"reasoning_effort", kConversation, R"({"enum":["none","minimal","low","medium","high","xhigh","max"]})"},
    {"reasoning", kConversation, R"({"anyOf":[{"type":"boolean"},{"$ref":"#/components/schemas/Reasoning"}]})"},
    {"thinking", kConversation, R"({"anyOf":[{"type":"boolean"},{"$ref":"#/components/schemas/Thinking"}]})"},
    {"think", kConversation, R"({"anyOf":[{"type":"boolean"},{"enum":["none","minimal","low","medium","high","xhigh","max"]}]})"},
    {"enable_thinking", kConversation, kBoolean},
    {"effort", kReasoning, R"({"enum":["none","minimal","low","medium","high","xhigh","max"]})"},
    {"enabled", kReasoning, kBoolean},
    {"max_tokens", kReasoning, kOneOrMore},
    {"type", kThinking, R"({"enum":["enabled","adaptive","disabled"]})"},
    {"budget_tokens", kThinking, kOneOrMore},
    {"display", kThinking, R"({"enum":["summarized","omitted"]})"},
    {"return", kFunction, R"({"type":"object"})"},
    {"include", kResponses, R"({"type":"array","items":{"const":"reasoning.encrypted_content"}})"},
    {"function", kTool, R"({"$ref":"#/components/schemas/Function"})"},
    {"function", kToolCall, R"({"$ref":"#/components/schemas/CalledFunction"})"},
    {"function", kToolChoice, R"({"$ref":"#/components/schemas/ChosenFunction"})"},
    {"name", kFunction | kCalledFunction | kChosenFunction, kName},
    {"description", kFunction | kInputTool, kText},
    {"parameters", kFunction, R"({"type":"object"})"},
    {"strict", kFunction | kInputTool, kBoolean},
    {"id", kToolCall | kBlock, kText},
    {"arguments", kCalledFunction | kInputItem, kText},
    {"chat_template_kwargs", kConversation, R"({"type":"object"})"},
    {"documents", kConversation, R"({"type":"array","items":{"type":"object"}})"},
    {"add_generation_prompt", kConversation, kBoolean},
    {"continue_final_message", kConversation, kBoolean},
    {"reasoning_format", kChat, R"({"enum":["auto","deepseek","none"]})"},
    {"include_reasoning", kChat, kBoolean},
    {"separate_reasoning", kChat, kBoolean},
    {"name", kMessage, kText},
    {"tool_call_id", kMessage, kText},
    {"tool_calls", kMessage, R"({"type":"array","items":{"$ref":"#/components/schemas/ToolCall"}})"},
    {"reasoning_content", kMessage, kText},
    {"input", kResponses, R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"$ref":"#/components/schemas/InputItem"}}]})"},
    {"instructions", kResponses, kText},
    {"text", kResponses, R"({"$ref":"#/components/schemas/ResponsesText"})"},
    {"truncation", kResponses, R"({"const":"disabled"})"},
    {"format", kResponsesText, R"({"type":"object"})"},
    {"type", kInputItem, R"({"enum":["message","function_call","function_call_output","reasoning"]})"},
    {"type", kInputPart, R"({"enum":["input_text","output_text","text","reasoning_text"]})"},
    {"type", kBlock, R"({"enum":["text","tool_use","tool_result","thinking"]})"},
    {"type", kInputTool, R"({"const":"custom"})"},
    {"type", kInputChoice, R"({"enum":["auto","any","tool","none"]})"},
    {"role", kInputItem, R"({"enum":["system","developer","user","assistant","tool"]})"},
    {"role", kTurn, R"({"enum":["user","assistant"]})"},
    {"content", kInputItem, R"({"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/components/schemas/InputPart"}}]})"},
    {"content", kTurn | kBlock, R"({"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/components/schemas/Block"}}]})"},
    {"call_id", kInputItem, kText},
    {"name", kInputItem | kBlock | kInputTool | kInputChoice, kText},
    {"output", kInputItem, R"({"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/components/schemas/InputPart"}}]})"},
    {"text", kInputPart | kBlock, kText},
    {"system", kMessages, R"({"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/components/schemas/Block"}}]})"},
    {"stop_sequences", kMessages, kTexts},
    {"input", kBlock, R"({"type":"object"})"},
    {"tool_use_id", kBlock, kText},
    {"is_error", kBlock, kBoolean},
    {"thinking", kBlock, kText},
    {"input_schema", kInputTool, R"({"type":"object"})"},
    {"disable_parallel_tool_use", kInputChoice, kBoolean},
    {"options", kGenerate, R"({"$ref":"#/components/schemas/HubOptions"})"},
    {"apply_chat_template", kParameters, kBoolean},
    {"parse_special", kParameters | kCompletions | kTokenize, kBoolean},
    {"add_special_tokens", kParameters | kCompletions | kTokenize, kBoolean},
    {"truncate", kParameters, kOneOrMore},
    {"truncate_prompt_tokens", kOpenAi, R"({"type":"integer","minimum":-1})"},
    {"model", kNaming, kText},
    {"adapter_id", kNaming, kText},
    {"adapters", kNaming, kAny},
    {"lora", kNaming, R"({"type":"array","items":{"$ref":"#/components/schemas/ScaledAdapter"}})"},
    {"lora_request", kNaming, R"({"$ref":"#/components/schemas/AdapterRequest"})"},
    {"merged_adapters", kNaming, R"({"$ref":"#/components/schemas/MergedAdapters"})"},
    {"adapter_source", kNaming, kText},
    {"ids", kMerged, kTexts},
    {"weights", kMerged, R"({"type":"array","items":{"type":"number"}})"},
    {"merge_strategy", kMerged, kText},
    {"id", kScaledAdapter, kCount},
    {"scale", kScaledAdapter, kNumber},
    {"lora_name", kAdapterRequest | kLoad | kUnload, kName},
    {"lora_path", kAdapterRequest | kLoad, kName},
    {"path", kAdapterRequest, kName},
    {"base_model_name", kLoad, kText},
    {"max_tokens", kOpenAi, R"({"type":"integer","minimum":-1})"},
    {"max_new_tokens", kParameters, R"({"type":"integer","minimum":-1})"},
    {"min_tokens", kOpenAi, kCount},
    {"min_new_tokens", kParameters, kCount},
    {"stop", kSampling, R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string","minLength":1}}]})"},
    {"stop_token_ids", kSampling, R"({"type":"array","items":{"type":"integer","minimum":0}})"},
    {"include_stop_str_in_output", kOpenAi, kBoolean},
    {"ignore_eos", kOpenAi, kBoolean},
    {"ignore_eos_token", kParameters, kBoolean},
    {"priority", kSampling, R"({"type":"integer"})"},
    {"temperature", kOpenAi, R"({"type":"number","minimum":0,"maximum":2})"},
    {"temperature", kParameters, R"({"type":"number","minimum":0})"},
    {"top_k", kOpenAi, R"({"type":"integer","minimum":-1})"},
    {"top_k", kParameters, kOneOrMore},
    {"top_p", kChat, R"({"type":"number","minimum":0,"maximum":1})"},
    {"top_p", kParameters | kCompletions, R"({"type":"number","exclusiveMinimum":0,"maximum":1})"},
    {"typical_p", kOpenAi, R"({"type":"number","exclusiveMinimum":0,"maximum":1})"},
    {"typical_p", kParameters, R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})"},
    {"min_p", kSampling, R"({"type":"number","minimum":0,"maximum":1})"},
    {"repetition_penalty", kSampling, R"({"type":"number","exclusiveMinimum":0})"},
    {"presence_penalty", kSampling, kTwo},
    {"frequency_penalty", kSampling, kTwo},
    {"logit_bias", kSampling, R"({"type":"object","additionalProperties":{"type":"number","minimum":-100,"maximum":100}})"},
    {"seed", kOpenAi, R"({"type":"integer"})"},
    {"seed", kParameters, kCount},
    {"do_sample", kParameters, kBoolean},
    {"n", kOpenAi, kOneOrMore},
    {"best_of", kParameters | kCompletions, kOneOrMore},
    {"response_format", kSampling, R"({"$ref":"#/components/schemas/Format"})"},
    {"grammar", kSampling, R"({"anyOf":[{"type":"string"},{"$ref":"#/components/schemas/Format"}]})"},
    {"structured_outputs", kSampling, R"({"$ref":"#/components/schemas/StructuredOutputs"})"},
    {"guided_json", kSampling, kTextOrObject},
    {"guided_regex", kSampling, kText},
    {"guided_choice", kSampling, kTexts},
    {"guided_grammar", kSampling, kText},
    {"json_schema", kSampling, kTextOrObject},
    {"regex", kSampling, kText},
    {"choice", kSampling, kTexts},
    {"ebnf", kSampling, kText},
    {"format", kSampling, kTextOrObject},
    {"schema", kSampling, kTextOrObject},
    {"response_schema", kSampling, kTextOrObject},
    {"type", kFormat, kText},
    {"json_schema", kFormat, R"({"anyOf":[{"$ref":"#/components/schemas/JsonSchema"},{"type":["string","object"]}]})"},
    {"schema", kFormat, kTextOrObject},
    {"value", kFormat, kAny},
    {"response_schema", kFormat, kTextOrObject},
    {"regex", kFormat, kText},
    {"pattern", kFormat, kText},
    {"grammar", kFormat, kText},
    {"schema", kJsonSchema, kTextOrObject},
    {"parameters", kJsonSchema, kTextOrObject},
    {"json", kStructured, kTextOrObject},
    {"regex", kStructured, kText},
    {"choice", kStructured, kTexts},
    {"grammar", kStructured, kText},
    {"json_object", kStructured, kBoolean},
    {"stream", kGenerate | kOpenAi, kBoolean},
    {"stream_options", kOpenAi, R"({"$ref":"#/components/schemas/StreamOptions"})"},
    {"include_usage", kStreamOptions, kBoolean},
    {"continuous_usage_stats", kStreamOptions, kBoolean},
    {"details", kParameters, kBoolean},
    {"decoder_input_details", kParameters, kBoolean},
    {"return_k_alternatives", kParameters, kOneOrMore},
    {"return_full_text", kParameters, kBoolean},
    {"top_n_tokens", kParameters, kCount},
    {"echo", kCompletions, kBoolean},
    {"logprobs", kCompletions, R"({"anyOf":[{"type":"integer","minimum":0,"maximum":20},{"const":false}]})"},
    {"logprobs", kChat, kBoolean},
    {"top_logprobs", kChat, R"({"type":"integer","minimum":0,"maximum":20})"},
    {"prompt_logprobs", kOpenAi, kCount},
    {"return_token_ids", kOpenAi, kBoolean},
    {"receipt", kSampling, kBoolean},
    {"skip_special_tokens", kSampling, kBoolean},
    {"resumable", kGenerate | kOpenAi, kBoolean},
    {"role", kMessage, R"({"enum":["system","developer","user","assistant","tool"]})"},
    {"content", kMessage, R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"$ref":"#/components/schemas/Part"}}]})"},
    {"type", kPart, R"({"const":"text"})"},
    {"text", kPart, kText},
    {"prediction", kGenerate | kOpenAi, R"({"$ref":"#/components/schemas/Prediction"})"},
    {"type", kPrediction, R"({"const":"content"})"},
    {"content", kPrediction, R"({"oneOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/components/schemas/Part"}}]})"},
    {"cache_salt", kSampling | kHeads, kText},
    {"input", kEmbeddings | kClassify, kInputs},
    {"inputs", kEmbed | kClassify, kInputs},
    {"parameters", kEmbeddings | kEmbed | kClassify, R"({"$ref":"#/components/schemas/HeadParameters"})"},
    {"encoding_format", kEmbeddings, R"({"enum":["float","base64"]})"},
    {"dimensions", kEmbeddings | kEmbed, kOneOrMore},
    {"normalize", kEmbeddings | kEmbed, kBoolean},
    {"raw_scores", kClassify | kRerank | kScore, kBoolean},
    {"use_activation", kClassify | kRerank | kScore, kBoolean},
    {"query", kRerank, kName},
    {"documents", kRerank, R"({"type":"array","minItems":1,"maxItems":2048,"items":{"anyOf":[{"type":"string"},{"$ref":"#/components/schemas/Document"}]}})"},
    {"texts", kRerank, R"({"type":"array","minItems":1,"maxItems":2048,"items":{"type":"string"}})"},
    {"text", kDocument, kText},
    {"top_n", kRerank, kCount},
    {"return_documents", kRerank, kBoolean},
    {"return_text", kRerank, kBoolean},
    {"instruction", kRerank | kScore, kText},
    {"text_1", kScore, kOneOrSeveral},
    {"text_2", kScore, kOneOrSeveral},
    {"truncate", kHeads, kBoolean},
    {"truncate_prompt_tokens", kHeads, R"({"type":"integer","minimum":-1})"},
    {"truncation_direction", kHeads, R"({"enum":["left","right","Left","Right"]})"},
    {"parse_special", kHeads, kBoolean},
    {"add_special_tokens", kHeads, kBoolean},
    {"priority", kHeads, R"({"type":"integer"})"},
};

struct PlaceName {
  Place place;
  std::string_view name;
  std::string_view required;  // a JSON list
  std::uint64_t also = 0;     // places whose members it has, too, where it has none of the name
};

constexpr PlaceName kPlaces[] = {
    {kGenerate, "Generate", R"(["inputs"])"},
    {kParameters, "Parameters", "[]"},
    {kCompletions, "CompletionsBody", R"(["prompt"])"},
    {kChat, "ChatBody", R"(["messages"])"},
    {kTokenize, "Tokenize", "[]"},
    {kTemplate, "Conversation", R"(["messages"])"},
    {kResponses, "ResponsesBody", R"(["input"])", kChat},
    {kMessages, "MessagesBody", R"(["messages"])", kChat},
    {kLoad, "LoadAdapter", R"(["lora_name","lora_path"])"},
    {kUnload, "UnloadAdapter", R"(["lora_name"])"},
    {kStreamOptions, "StreamOptions", "[]"},
    {kMessage, "Message", R"(["role"])"},
    {kPart, "Part", R"(["type","text"])"},
    {kPrediction, "Prediction", R"(["type","content"])"},
    {kTool, "Tool", R"(["function"])"},
    {kFunction, "Function", R"(["name"])"},
    {kToolCall, "ToolCall", R"(["function"])"},
    {kCalledFunction, "CalledFunction", R"(["name"])"},
    {kToolChoice, "ToolChoice", "[]"},
    {kAllowedTools, "AllowedTools", R"(["mode","tools"])"},
    {kReasoning, "Reasoning", "[]"},
    {kThinking, "Thinking", R"(["type"])"},
    {kDetokenize, "Detokenize", R"(["tokens"])"},
    {kChosenFunction, "ChosenFunction", R"(["name"])"},
    {kInputItem, "InputItem", "[]"},
    {kInputPart, "InputPart", R"(["type","text"])"},
    {kResponsesText, "ResponsesText", "[]"},
    {kTurn, "Turn", R"(["role","content"])"},
    {kBlock, "Block", R"(["type"])"},
    {kInputTool, "InputTool", R"(["name"])"},
    {kInputChoice, "InputChoice", R"(["type"])"},
    {kFormat, "Format", "[]"},
    {kJsonSchema, "JsonSchema", "[]"},
    {kStructured, "StructuredOutputs", "[]"},
    {kMerged, "MergedAdapters", R"(["ids"])"},
    {kScaledAdapter, "ScaledAdapter", R"(["id"])"},
    {kAdapterRequest, "AdapterRequest", "[]"},
    {kHubOptions, "HubOptions", "[]"},
    {kEmbeddings, "EmbeddingsBody", R"(["input"])"},
    {kEmbed, "EmbedBody", R"(["inputs"])"},
    {kClassify, "ClassifyBody", "[]"},
    {kRerank, "RerankBody", R"(["query"])"},
    {kScore, "ScoreBody", "[]"},
    {kHeadParameters, "HeadParameters", "[]"},
    {kDocument, "Document", R"(["text"])"},
    {kOllamaChat, "OllamaChatBody", "[]"},
    {kOllamaGenerate, "OllamaGenerateBody", "[]"},
    {kOllamaOptions, "OllamaOptions", "[]"},
    {kOllamaMessage, "OllamaMessage", R"(["role"])"},
    {kOllamaCall, "OllamaCall", R"(["function"])"},
    {kOllamaFunction, "OllamaFunction", R"(["name"])"},
    {kOllamaEmbed, "OllamaEmbedBody", R"(["input"])"},
    {kOllamaEmbeddings, "OllamaEmbeddingsBody", R"(["prompt"])"},
    {kOllamaShow, "OllamaShowBody", "[]"},
};

// Schemas of answers, with the members that each has at least.
constexpr std::pair<std::string_view, std::string_view> kAnswers[] = {
    {"Generated", R"({"type":"object","required":["generated_text"],"properties":{"generated_text":{"type":"string"},"details":{"type":"object","required":["finish_reason","prompt_tokens","generated_tokens","prefill","tokens"],"properties":{"finish_reason":{"enum":["length","eos_token","stop_sequence"]},"prompt_tokens":{"type":"integer"},"generated_tokens":{"type":"integer"},"seed":{"type":["integer","null"]},"prefill":{"type":"array"},"tokens":{"type":"array"}}}}})"},
    {"GeneratedList", R"({"type":"array","minItems":1,"maxItems":1,"items":{"$ref":"#/components/schemas/Generated"}})"},
    {"Usage", R"({"type":"object","required":["prompt_tokens","completion_tokens","total_tokens"],"properties":{"prompt_tokens":{"type":"integer"},"completion_tokens":{"type":"integer"},"total_tokens":{"type":"integer"},"completion_tokens_details":{"type":"object","required":["accepted_prediction_tokens","rejected_prediction_tokens"],"properties":{"accepted_prediction_tokens":{"type":"integer"},"rejected_prediction_tokens":{"type":"integer"}}}}})"},
    {"Completion", R"({"type":"object","required":["id","object","created","model","choices","usage"],"properties":{"id":{"type":"string"},"object":{"const":"text_completion"},"created":{"type":"integer"},"model":{"type":"string"},"choices":{"type":"array","items":{"type":"object","required":["index","text","finish_reason"],"properties":{"index":{"type":"integer"},"text":{"type":"string"},"finish_reason":{"type":"string"}}}},"usage":{"$ref":"#/components/schemas/Usage"}}})"},
    {"ChatCompletion", R"({"type":"object","required":["id","object","created","model","choices","usage"],"properties":{"id":{"type":"string"},"object":{"const":"chat.completion"},"created":{"type":"integer"},"model":{"type":"string"},"choices":{"type":"array","items":{"type":"object","required":["index","message","finish_reason"],"properties":{"index":{"type":"integer"},"message":{"type":"object","required":["role"]},"finish_reason":{"type":"string"}}}},"usage":{"$ref":"#/components/schemas/Usage"}}})"},
    {"Response", R"({"type":"object","required":["id","object","created_at","model","status","output"],"properties":{"id":{"type":"string"},"object":{"const":"response"},"created_at":{"type":"integer"},"model":{"type":"string"},"status":{"enum":["completed","incomplete"]},"output":{"type":"array","items":{"type":"object","required":["type","id"]}}}})"},
    {"AnthropicMessage", R"({"type":"object","required":["id","type","role","model","content","stop_reason","usage"],"properties":{"id":{"type":"string"},"type":{"const":"message"},"role":{"const":"assistant"},"content":{"type":"array","items":{"type":"object","required":["type"]}},"stop_reason":{"enum":["end_turn","max_tokens","stop_sequence","tool_use"]},"stop_sequence":{"type":["string","null"]}}})"},
    {"PromptUsage", R"({"type":"object","required":["prompt_tokens","total_tokens"],"properties":{"prompt_tokens":{"type":"integer"},"total_tokens":{"type":"integer"}}})"},
    {"Vector", R"({"type":"array","items":{"type":"number"}})"},
    {"Embeddings", R"({"type":"object","required":["object","data","model","usage"],"properties":{"object":{"const":"list"},"data":{"type":"array","items":{"type":"object","required":["object","index","embedding"],"properties":{"object":{"const":"embedding"},"index":{"type":"integer"},"embedding":{"anyOf":[{"$ref":"#/components/schemas/Vector"},{"type":"string"}]}}}},"model":{"type":"string"},"usage":{"$ref":"#/components/schemas/PromptUsage"}}})"},
    {"Embedded", R"({"anyOf":[{"type":"object","required":["embeddings"],"properties":{"embeddings":{"$ref":"#/components/schemas/Vector"}}},{"type":"array","items":{"$ref":"#/components/schemas/Vector"}}]})"},
    {"Class", R"({"type":"object","required":["label","score"],"properties":{"label":{"type":"string"},"score":{"type":"number"}}})"},
    {"Classes", R"({"anyOf":[{"type":"array","items":{"$ref":"#/components/schemas/Class"}},{"type":"array","items":{"type":"array","items":{"$ref":"#/components/schemas/Class"}}},{"type":"object","required":["id","object","created","model","data","usage"],"properties":{"object":{"const":"list"},"data":{"type":"array","items":{"type":"object","required":["index","label","probs","num_classes"]}},"usage":{"$ref":"#/components/schemas/PromptUsage"}}}]})"},
    {"Ranks", R"({"anyOf":[{"type":"object","required":["id","model","usage","results"],"properties":{"usage":{"$ref":"#/components/schemas/PromptUsage"},"results":{"type":"array","items":{"type":"object","required":["index","relevance_score"],"properties":{"index":{"type":"integer"},"document":{"type":"object","required":["text"]},"relevance_score":{"type":"number"}}}}}},{"type":"array","items":{"type":"object","required":["index","score"],"properties":{"index":{"type":"integer"},"text":{"type":"string"},"score":{"type":"number"}}}}]})"},
    {"PairScores", R"({"type":"object","required":["id","object","created","model","data","usage"],"properties":{"object":{"const":"list"},"data":{"type":"array","items":{"type":"object","required":["index","object","score"],"properties":{"index":{"type":"integer"},"object":{"const":"score"},"score":{"type":"number"}}}},"usage":{"$ref":"#/components/schemas/PromptUsage"}}})"},
    {"Prompt", R"({"type":"object","required":["prompt"],"properties":{"prompt":{"type":"string"}}})"},
    {"TokenCount", R"({"type":"object","required":["input_tokens"],"properties":{"input_tokens":{"type":"integer"}}})"},
    {"Tokens", R"({"anyOf":[{"type":"array","items":{"type":"object","required":["id","text","start","stop"],"properties":{"id":{"type":"integer"},"text":{"type":"string"},"start":{"type":"integer"},"stop":{"type":"integer"}}}},{"type":"object","required":["tokens"],"properties":{"tokens":{"type":"array"},"count":{"type":"integer"},"max_model_len":{"type":"integer"},"token_strs":{"type":["array","null"]}}}]})"},
    {"Text", R"({"type":"object","required":["prompt","content"],"properties":{"prompt":{"type":"string"},"content":{"type":"string"}}})"},
    {"Info", R"({"type":"object","required":["model_id","version","max_total_tokens"],"properties":{"model_id":{"type":"string"},"version":{"type":"string"},"max_total_tokens":{"type":"integer"}}})"},
    {"Model", R"({"type":"object","required":["id","object","created","owned_by"],"properties":{"id":{"type":"string"},"object":{"const":"model"},"created":{"type":"integer"},"owned_by":{"type":"string"}}})"},
    {"Models", R"({"type":"object","required":["object","data"],"properties":{"object":{"const":"list"},"data":{"type":"array","items":{"$ref":"#/components/schemas/Model"}}}})"},
    {"OllamaChat", R"({"type":"object","required":["model","created_at","message","done"],"properties":{"model":{"type":"string"},"created_at":{"type":"string"},"message":{"type":"object","required":["role","content"],"properties":{"role":{"const":"assistant"},"content":{"type":"string"},"thinking":{"type":"string"},"tool_calls":{"type":"array","items":{"type":"object","required":["function"]}}}},"done":{"type":"boolean"},"done_reason":{"enum":["stop","length","load"]}}})"},
    {"OllamaText", R"({"type":"object","required":["model","created_at","response","done"],"properties":{"model":{"type":"string"},"created_at":{"type":"string"},"response":{"type":"string"},"thinking":{"type":"string"},"done":{"type":"boolean"},"done_reason":{"enum":["stop","length","load"]}}})"},
    {"OllamaEmbeddings", R"({"type":"object","required":["model","embeddings","prompt_eval_count"],"properties":{"model":{"type":"string"},"embeddings":{"type":"array","items":{"type":"array","items":{"type":"number"}}},"prompt_eval_count":{"type":"integer"}}})"},
    {"OllamaEmbedding", R"({"type":"object","required":["embedding"],"properties":{"embedding":{"type":"array","items":{"type":"number"}}}})"},
    {"OllamaModel", R"({"type":"object","required":["details","model_info","capabilities","modified_at"],"properties":{"details":{"type":"object"},"model_info":{"type":"object"},"capabilities":{"type":"array","items":{"type":"string"}},"modified_at":{"type":"string"}}})"},
    {"OllamaModels", R"({"type":"object","required":["models"],"properties":{"models":{"type":"array","items":{"type":"object","required":["name","model","size","digest","details"]}}}})"},
    {"OllamaError", R"({"type":"object","required":["error"],"properties":{"error":{"type":"string"}}})"},
    {"Adapters", R"({"type":"array","items":{"type":"object","required":["id","path","scale"],"properties":{"id":{"type":"integer"},"path":{"type":"string"},"scale":{"type":"number"}}}})"},
    {"Status", R"({"type":"object","required":["status"],"properties":{"status":{"enum":["ok","ready","loading","draining"]}}})"},
    {"Version", R"({"type":"object","required":["version"],"properties":{"version":{"type":"string"}}})"},
    {"Steps", R"({"type":"object","required":["steps"],"properties":{"steps":{"type":"array"}}})"},
    {"OpenApi", R"({"type":"object","required":["openapi","info","paths"]})"},
    {"LoraxError", R"({"type":"object","required":["error","error_type"],"properties":{"error":{"type":"string"},"error_type":{"type":"string"}}})"},
    {"AnthropicError", R"({"type":"object","required":["type","error"],"properties":{"type":{"const":"error"},"error":{"type":"object","required":["type","message"],"properties":{"type":{"type":"string"},"message":{"type":"string"}}}}})"},
    {"OpenAiError", R"({"type":"object","required":["error"],"properties":{"error":{"type":"object","required":["message","type","param","code"],"properties":{"message":{"type":"string"},"type":{"type":"string"},"param":{"type":["string","null"]},"code":{"type":["string","integer","null"]}}}}})"},
};

// Why a request with a body is refused.
constexpr std::pair<ApiError::Kind, std::string_view> kRefusals[] = {
    {ApiError::Kind::malformed, "no JSON object"},
    {ApiError::Kind::invalid, "a field is wrong, unknown or not supported"},
    {ApiError::Kind::unauthorized, "no valid key"},
    {ApiError::Kind::forbidden, "a web page that may not ask"},
    {ApiError::Kind::not_permitted, "a key without the role"},
    {ApiError::Kind::unknown_adapter, "no such model or adapter"},
    {ApiError::Kind::adapter_unusable, "an adapter that does not fit"},
    {ApiError::Kind::no_head, "a model without the head that this route needs"},
    {ApiError::Kind::too_large, "too large"},
    {ApiError::Kind::unsupported_media, "compressed or multipart"},
    {ApiError::Kind::overloaded, "as many requests as the server takes"},
    {ApiError::Kind::rate_limited, "the key's minute is used up"},
    {ApiError::Kind::incomplete, "the answer was cut short"},
    {ApiError::Kind::engine, "the engine failed"},
    {ApiError::Kind::unavailable, "loading, or going down"},
    {ApiError::Kind::timeout, "longer than --request-timeout"},
};
// clang-format on

OrderedJson ref(std::string_view name) { return {{"$ref", "#/components/schemas/" + std::string(name)}}; }

OrderedJson content(std::string_view type, OrderedJson schema) {
  return {{std::string(type), {{"schema", std::move(schema)}}}};
}

// null is absent everywhere.
OrderedJson nullable(std::string_view schema) {
  OrderedJson any = OrderedJson::parse(schema);
  if (any.empty()) return any;
  return {{"anyOf", {std::move(any), {{"type", "null"}}}}};
}

OrderedJson members_schema(const PlaceName& place, bool lenient) {
  OrderedJson properties = OrderedJson::object();
  const auto required = OrderedJson::parse(place.required);
  for (const Field& field : field_table()) {
    const bool own = field.places & place.place;
    const bool other = !own && (field.places & place.also) && !find_field(field.name, place.place);
    if ((!own && !other) || field.kind == FieldClass::refused) continue;
    const std::string name(field.name);
    const bool needed = std::find(required.begin(), required.end(), name) != required.end();
    const std::string_view schema = schema_of(field, own ? place.place : kChat);
    OrderedJson property = needed ? OrderedJson::parse(schema) : nullable(schema);
    if (!field.same_as.empty()) property["description"] = "another name of `" + std::string(field.same_as) + "`";
    if (field.kind == FieldClass::inert) property["description"] = "changes no answer";
    properties[name] = std::move(property);
  }
  OrderedJson schema = {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", lenient}};
  if (!required.empty()) schema["required"] = required;
  return schema;
}

const char* error_schema(Dialect dialect) {
  if (dialect == Dialect::lorax) return "LoraxError";
  if (dialect == Dialect::ollama) return "OllamaError";
  return dialect == Dialect::openai ? "OpenAiError" : "AnthropicError";
}

OrderedJson responses(const Route& route) {
  const Dialect dialect = dialect_of(route.path);
  const OrderedJson error = content("application/json", ref(error_schema(dialect)));
  OrderedJson all = OrderedJson::object();
  OrderedJson good = OrderedJson::object();
  if (route.answer.find('/') != route.answer.npos)
    good.update(content(route.answer, {{"type", "string"}}));
  else if (!route.answer.empty())
    good.update(content("application/json", ref(route.answer)));
  if (!route.stream.empty())
    good.update(content(dialect == Dialect::ollama ? "application/x-ndjson" : "text/event-stream",
                        OrderedJson::object()));  // 3.1 describes no event
  if (!good.empty()) all["200"] = {{"description", route.summary}, {"content", std::move(good)}};
  if (route.answer == "Status")
    all["503"] = {{"description", "not now"}, {"content", content("application/json", {{"type", "object"}})}};
  std::map<int, std::string> refusals;
  for (const auto& [kind, why] : kRefusals) {
    if (route.body == 0) break;
    if (kind == ApiError::Kind::no_head && !(route.body & kHeads)) continue;
    std::string& text = refusals[status(kind, dialect)];
    text.append(text.empty() ? "" : "; ").append(why);
  }
  for (const auto& [code, why] : refusals) all[std::to_string(code)] = {{"description", why}, {"content", error}};
  all["default"] = {{"description", "an error"}, {"content", error}};
  return all;
}

std::string lower_case(std::string_view method) {
  std::string text(method);
  for (char& c : text) c = static_cast<char>(c | 0x20);
  return text;
}

// get_v1_models_name of GET /v1/models/*
std::string operation_id(const Route& route) {
  std::string id = lower_case(route.method);
  for (const char c : route.path) id += c == '/' || c == '-' || c == '.' ? "_" : c == '*' ? "name" : std::string(1, c);
  return id;
}

OrderedJson operation(const Route& route, bool with_keys) {
  OrderedJson made = {{"operationId", operation_id(route)}, {"summary", route.summary}};
  OrderedJson parameters = OrderedJson::array();
  if (route.path.ends_with('*'))
    parameters.push_back({{"name", "name"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  if (route.path == "/ui/steps")
    parameters.push_back(
        {{"name", "since"}, {"in", "query"}, {"required", true}, {"schema", OrderedJson::parse(kCount)}});
  if (!parameters.empty()) made["parameters"] = std::move(parameters);
  for (const PlaceName& place : kPlaces) {
    if (route.body != place.place) continue;
    made["requestBody"] = {{"required", true}, {"content", content("application/json", ref(place.name))}};
  }
  made["responses"] = responses(route);
  made["security"] = OrderedJson::array();
  if (with_keys && route.roles != 0) {
    made["security"].push_back({{"bearer", OrderedJson::array()}});
    made["security"].push_back({{"header", OrderedJson::array()}});
  }
  return made;
}

}  // namespace

std::string_view schema_name(Place place) {
  for (const PlaceName& each : kPlaces)
    if (each.place == place) return each.name;
  return {};
}

std::string_view schema_of(const Field& field, Place place) {
  if (field.kind == FieldClass::inert) return kAny;
  const std::string_view name = field.same_as.empty() ? field.name : field.same_as;
  for (const FieldSchema& each : kSchemas)
    if (each.name == name && (each.places & place)) return each.schema;
  return {};
}

OrderedJson openapi(const Settings& settings, bool with_keys) {
  OrderedJson paths = OrderedJson::object();
  for (const Route& route : route_table()) {
    if (route.offered == Offered::with_admin && !settings.enable_adapter_admin) continue;
    if (route.offered == Offered::with_page && !settings.ui) continue;
    if (route.offered == Offered::with_receipt_key && settings.receipt_key_file.empty()) continue;
    std::string path(route.path);
    if (path.ends_with('*')) path.replace(path.size() - 1, 1, "{name}");
    paths[path][lower_case(route.method)] = operation(route, with_keys);
  }
  OrderedJson schemas = OrderedJson::object();
  for (const PlaceName& place : kPlaces) schemas[std::string(place.name)] = members_schema(place, settings.lenient);
  for (const auto& [name, schema] : kAnswers) schemas[std::string(name)] = OrderedJson::parse(schema);
  OrderedJson components = {{"schemas", std::move(schemas)}};
  if (with_keys)
    components["securitySchemes"] = {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
                                     {"header", {{"type", "apiKey"}, {"in", "header"}, {"name", "X-Api-Key"}}}};
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "tenon-serve"}, {"version", tenon::kVersion}}},
          {"paths", std::move(paths)},
          {"components", std::move(components)}};
}

}  // namespace serve

#include "serve/api/route_table.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace serve {
namespace {

constexpr unsigned kOperators = kAdminRole | kMetricsRole;

// clang-format off
constexpr Route kRoutes[] = {
    {"POST", "/", kServeRole, kGenerate, "GeneratedList", "stream", "LoRAX: a list of one answer, or a stream"},
    {"POST", "/generate", kServeRole, kGenerate, "Generated", "", "LoRAX: one answer"},
    {"POST", "/generate_stream", kServeRole, kGenerate, "", "always", "LoRAX: a stream"},
    {"POST", "/v1/completions", kServeRole, kCompletions, "Completion", "stream", "OpenAI: text that goes on from a prompt"},
    {"POST", "/v1/chat/completions", kServeRole, kChat, "ChatCompletion", "stream", "OpenAI: the next message of a chat"},
    {"POST", "/v1/responses", kServeRole, kResponses, "Response", "stream", "OpenAI: the next part of a conversation"},
    {"POST", "/v1/messages", kServeRole, kMessages, "AnthropicMessage", "stream", "Anthropic: the next message of a chat"},
    {"POST", "/v1/messages/count_tokens", kServeRole, kMessages, "TokenCount", "", "Anthropic: the number of tokens of the prompt"},
    {"POST", "/v1/embeddings", kServeRole, kEmbeddings, "Embeddings", "", "OpenAI: embeddings of texts"},
    {"POST", "/embed", kServeRole, kEmbed, "Embedded", "", "LoRAX, TEI: embeddings of texts"},
    {"POST", "/classify", kServeRole, kClassify, "Classes", "", "LoRAX, TEI, vLLM: classes of texts"},
    {"POST", "/classify_batch", kServeRole, kClassify, "Classes", "", "LoRAX: classes of texts"},
    {"POST", "/rerank", kServeRole, kRerank, "Ranks", "", "Cohere, Jina, vLLM, TEI: documents by their relevance to a query"},
    {"POST", "/v1/rerank", kServeRole, kRerank, "Ranks", "", "the same"},
    {"POST", "/v2/rerank", kServeRole, kRerank, "Ranks", "", "the same"},
    {"POST", "/score", kServeRole, kScore, "PairScores", "", "vLLM: scores of pairs of texts"},
    {"POST", "/v1/score", kServeRole, kScore, "PairScores", "", "the same"},
    {"POST", "/tokenize", kServeRole, kTokenize, "Tokens", "", "the tokens of a text, or of a chat's prompt"},
    {"POST", "/detokenize", kServeRole, kDetokenize, "Text", "", "vLLM, llama.cpp: the text of tokens"},
    {"POST", "/apply-template", kServeRole, kTemplate, "Prompt", "", "llama.cpp: the prompt of a chat"},
    {"POST", "/api/chat", kServeRole, kOllamaChat, "OllamaChat", "stream", "Ollama: the next message of a chat"},
    {"POST", "/api/generate", kServeRole, kOllamaGenerate, "OllamaText", "stream", "Ollama: the answer to a prompt"},
    {"POST", "/api/embed", kServeRole, kOllamaEmbed, "OllamaEmbeddings", "", "Ollama: embeddings of texts"},
    {"POST", "/api/embeddings", kServeRole, kOllamaEmbeddings, "OllamaEmbedding", "", "Ollama: the embedding of a text"},
    {"POST", "/api/show", kEveryRole, kOllamaShow, "OllamaModel", "", "Ollama: facts about the model"},
    {"GET", "/api/tags", kEveryRole, 0, "OllamaModels", "", "Ollama: the model and its adapters"},
    {"GET", "/api/ps", kEveryRole, 0, "OllamaModels", "", "Ollama: those in memory"},
    {"GET", "/api/version", kEveryRole, 0, "Version", "", "Ollama: the version of the server"},
    {"POST", "/api/pull", kServeRole, 0, "", "", "Ollama: always 501, since the server has one model"},
    {"POST", "/api/push", kServeRole, 0, "", "", "the same"},
    {"POST", "/api/create", kServeRole, 0, "", "", "the same"},
    {"POST", "/api/copy", kServeRole, 0, "", "", "the same"},
    {"DELETE", "/api/delete", kServeRole, 0, "", "", "the same"},
    {"GET", "/info", kEveryRole, 0, "Info", "", "facts and limits of the server"},
    {"GET", "/v1/models", kEveryRole, 0, "Models", "", "the model and its adapters"},
    {"GET", "/v1/models/*", kEveryRole, 0, "Model", "", "one of them"},
    {"GET", "/lora-adapters", kEveryRole, 0, "Adapters", "", "llama.cpp: adapters in memory"},
    {"POST", "/lora-adapters", kServeRole, 0, "", "", "llama.cpp: always 501, since each request names its adapter"},
    {"POST", "/v1/load_lora_adapter", kAdminRole, kLoad, "text/plain", "", "vLLM: reads an adapter, under a name", Offered::with_admin},
    {"POST", "/v1/unload_lora_adapter", kAdminRole, kUnload, "text/plain", "", "vLLM: forgets an adapter", Offered::with_admin},
    {"GET", "/health", 0, 0, "Status", "", "whether the engine is alive"},
    {"GET", "/", 0, 0, "Status", "", "whether the engine is alive"},
    {"GET", "/ping", 0, 0, "Status", "", "whether the engine is alive"},
    {"GET", "/ready", 0, 0, "Status", "", "whether requests are taken"},
    {"GET", "/v1/health", 0, 0, "Status", "", "whether requests are taken"},
    {"GET", "/startup", 0, 0, "Status", "", "whether requests are taken"},
    {"GET", "/metrics", kMetricsRole, 0, "text/plain", "", "Prometheus text"},
    {"GET", "/version", kEveryRole, 0, "Version", "", "vLLM: the version of the server"},
    {"GET", "/v1/receipt-key", kEveryRole, 0, "text/plain", "", "the public key that receipts are signed with, in PEM", Offered::with_receipt_key},
    {"GET", "/openapi.json", kEveryRole, 0, "OpenApi", "", "this description"},
    {"GET", "/ui", 0, 0, "text/html", "", "the page for people", Offered::with_page},
    {"GET", "/ui/steps", kServeRole | kOperators, 0, "Steps", "", "what its picture is drawn from", Offered::with_page},
};
// clang-format on

}  // namespace

std::span<const Route> route_table() { return kRoutes; }

const Route& find_route(std::string_view method, std::string_view path) {
  const auto found = std::find_if(std::begin(kRoutes), std::end(kRoutes),
                                  [&](const Route& each) { return each.method == method && each.path == path; });
  if (found == std::end(kRoutes)) throw std::logic_error("no row of the route table: " + std::string(path));
  return *found;
}

}  // namespace serve

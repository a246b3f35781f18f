// Conversations in files.
#pragma once
#include <filesystem>
#include <string>

#include "chat/session.h"

namespace program {

// Writes the conversation: as JSON if the name ends in .json, otherwise as Markdown. JSON has `messages` as `tenon run`
// and servers take them; of several sides it has the first one's, and all of them under `sides`.
void save_transcript(const std::filesystem::path& file, const ChatSession& session, const std::string& model);

// Reads a conversation that was saved as JSON, in place of the present one. Error invalid_file if it is none.
void load_transcript(const std::filesystem::path& file, ChatSession& session);

}  // namespace program

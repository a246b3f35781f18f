// The whole command line of the program, on one page (CLI11).
#pragma once

namespace program {

// Parses and runs. Returns the exit status of parsing (2 for wrong usage) or of the subcommand; throws what that
// throws.
int run_command_line(int argc, char** argv);

}  // namespace program

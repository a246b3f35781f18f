// The command line of the program, in one file (CLI11).
#pragma once

namespace program {

// Parses the command line and runs the subcommand. Returns its exit status, or 2 for wrong usage. Exceptions of the
// subcommand pass through.
int run_command_line(int argc, char** argv);

}  // namespace program

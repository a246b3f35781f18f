// The command line of the program, in one file (CLI11).
#pragma once

namespace program {

// Parses the command line and runs the subcommand. Returns its exit status, or 2 for wrong usage. Throws what the
// subcommand throws.
int run_command_line(int argc, char** argv);

}  // namespace program
